package hyperstack

import (
	"strconv"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestMain(m *testing.M) { cloudtest.Main(m) }

func TestConformance(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		f := startFake(t)
		fault, calls := providertest.OnServer(f.Server, map[providertest.Op][]string{
			providertest.OpOffers:    {opFlavors},
			providertest.OpPrepare:   {opCredit},
			providertest.OpLaunch:    {opCreate},
			providertest.OpDescribe:  {opMachine, opMachines},
			providertest.OpList:      {opMachines},
			providertest.OpTerminate: {opDelete},
			providertest.OpRelease:   {opEnvs}, // all that there is to do where no machine was made
		})
		cfg := f.config()
		cfg.Regions = []string{"CANADA-1", "US-1"}
		wrong, missing := cfg, cfg
		wrong.APIKey, missing.APIKey = "wrong", ""
		return providertest.Harness{
			Provider: cfg,
			Spec:     gputrain.Spec{Accelerator: accelerators.H100()},
			Account:  f.everything,
			Calls:    calls,
			Fault:    fault,
			Foreign:  f.foreign,
			States: cloudtest.States(map[string]gputrain.InstanceState{
				"CREATING": gputrain.InstancePending, "BUILD": gputrain.InstancePending, "RESTORING": gputrain.InstancePending,
				"ACTIVE": gputrain.InstanceRunning, "active": gputrain.InstanceRunning, "SHUTOFF": gputrain.InstanceStopped,
				"HIBERNATING": gputrain.InstanceStopped, "HIBERNATED": gputrain.InstanceStopped, "ERROR": gputrain.InstanceFailed,
				"DELETING": gputrain.InstanceStopped, "DELETED": gputrain.InstanceTerminated, "RESCUED": gputrain.InstanceUnknown,
			}, func(id, word string) { f.set(id, row{"status": word}) }),
			Stall:       func() { f.Do(func() { f.status = "BUILD" }) },
			Room:        func(n int) { f.Do(func() { f.full, f.room = true, n }) },
			Unpriced:    func() { f.Do(func() { f.prices = []row{} }) },
			PagedOffers: true, // each region is a list of its own
			MissingKey:  &providertest.MissingKey{Provider: missing, Names: keyVariable},
			WrongKey:    wrong,
			Secrets:     []string{testKey},
			Dial:        fakecloud.Dial,
		}
	})
}

// foreign puts into the account what looks like gputrain's and is not.
func (f *fake) foreign() (ids []string) {
	f.Do(func() {
		for _, e := range [][2]string{{"lab", "CANADA-1"}, {"gputrain-p1-us-1", "CANADA-1"}, {"gputrain--us-1", "US-1"}} {
			made := f.putEnvironment(nil, e[0], e[1])
			key := f.putKey(nil, made, "gputrain-p1", cloudtest.PoolKey)
			vm := f.put(nil, made, createMachine{Name: "gputrain-p1-0", Labels: []string{"gputrain", "gputrain-pool-", "team-x"}, FlavorName: "n3-H100x1"})
			for _, thing := range []row{made, key, vm.row} {
				ids = append(ids, strconv.Itoa(thing["id"].(int)))
			}
		}
	})
	return ids
}
