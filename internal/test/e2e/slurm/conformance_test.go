//go:build unix

package slurm

import (
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/providertest"
)

// The suite runs on the real cluster, with jobs without GPUs, of which there is room for many.
func TestConformance(t *testing.T) {
	b := common(t)
	const (
		noFaults = "a real controller fails only as a whole: providers/slurm tests this with a fake, and TestControllerStopped"
		noKeys   = "providers/slurm tests this with a fake"
	)
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		cfg := b.config()
		cfg.PollInterval = 100 * time.Millisecond
		return providertest.Harness{
			Provider: cfg,
			Account: func() (all []driver.Resource) {
				for line := range strings.Lines(b.on(t, "ctl", "squeue --noheader --format='%i %j'")) {
					id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
					all = append(all, driver.Resource{Kind: "machine", ID: id, Name: strings.TrimPrefix(name, "gputrain-")})
				}
				return all
			},
			Foreign: func() []string {
				id := b.submit(t, "--job-name=train")
				t.Cleanup(func() { b.on(t, "ctl", "scancel "+id) })
				return []string{id}
			},
			States: func() []providertest.StateCase {
				return []providertest.StateCase{
					{Vendor: "RUNNING", Set: func(string) {}, Want: driver.InstanceRunning},
					{Vendor: "SUSPENDED", Set: func(id string) { b.on(t, "ctl", "scontrol suspend "+id) }, Want: driver.InstanceStopped},
					{Vendor: "CANCELLED", Set: func(id string) { b.on(t, "ctl", "scancel "+id) }, Want: driver.InstanceTerminated},
				}
			},
			Without: map[string]string{
				"Funds": "a cluster has no money", "Allow": "a cluster tells no quota before a job is submitted",
				"offers name their country": "a cluster does not say where it is",
				"Fault":                     noFaults, "Calls": noFaults, "PagedOffers": "sinfo has no pages", "Metered": "a cluster has no meter: a price is the user's own",
				"MissingKey": noKeys, "WrongKey": noKeys, "Secrets": noKeys, "Tags": noKeys,
				"Stall":                               "TestFirstOfWhenFull has jobs that wait",
				"Room":                                "a full queue refuses no job: TestAccounting",
				"Unpriced":                            "prices are those of Config.HourlyUSD",
				"states that the table does not have": "a controller cannot be brought into one",
			},
		}
	})
}
