package aws

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func cloudtestSays(t *testing.T, err, kind error, says ...string) {
	t.Helper()
	for _, text := range says {
		if !errors.Is(err, kind) || !strings.Contains(fmt.Sprint(err), text) {
			t.Errorf("%v is not %v, or does not say %q", err, kind, text)
		}
	}
}

// Nodes run in the reservation that Config names, which costs what its machines cost.
func TestReservation(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.reserved["cr-00000001"] = fakeReservation{instanceType: "g5.xlarge", zone: "us-east-1b", room: 1}
	f.quotas["L-DB2E81BA"] = 0 // counted when the reservation was made
	d := prepared(t, f, func(c *Config) { c.CapacityReservationID, c.SubnetID = "cr-00000001", testSubnets["us-east-1b"] })
	spec := a10g
	spec.Allocation = driver.SpotIfAvailable
	all := cloudtest.AllOffers(t, d, spec.Query())
	if len(all) != 1 || all[0].Spot || len(all[0].Warnings) != 1 || !strings.Contains(all[0].Warnings[0], "cr-00000001, which is billed") {
		t.Fatalf("%+v", all)
	}
	if usd, _ := all[0].HourlyUSD.USD(); !near(usd, 1.006+100*diskUSD+addressUSD) {
		t.Errorf("%v", all[0].HourlyUSD)
	}
	if q := quotaOffer(t, d, all[0]); q.Known {
		t.Errorf("%+v", q)
	}
	mustLaunch(t, d, request(spec, all[0], 1))
	form, _ := url.ParseQuery(f.Records("RunInstances")[0].Body)
	if form.Get("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId") != "cr-00000001" || form.Get("InstanceMarketOptions.MarketType") != "" {
		t.Errorf("%v", form)
	}
	req := request(spec, all[0], 2)
	req.Nodes, req.Token = req.Nodes[1:], "second"
	_, err := d.Launch(t.Context(), req)
	is(t, err, driver.ErrNoCapacity, "launch")
	if n := len(f.Records("CreateFleet")); n != 0 {
		t.Errorf("%d fleets", n)
	}
}

// A capacity block was paid in advance: only disk and address cost something by the hour.
func TestCapacityBlock(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.reserved["cr-00000002"] = fakeReservation{instanceType: "p5e.48xlarge", zone: "us-east-1a", room: 1, block: true}
	d := prepared(t, f, func(c *Config) {
		c.CapacityReservationID, c.SubnetID, c.CapacityBlock = "cr-00000002", testSubnets["us-east-1a"], true
	})
	spec := gputrain.Spec{Accelerator: accelerators.H200(accelerators.Count(8))}
	o := offer(t, d, spec, "p5e.48xlarge")
	if usd, known := o.HourlyUSD.USD(); !known || !near(usd, 100*diskUSD+addressUSD) || !strings.Contains(fmt.Sprint(o.Warnings), "cr-00000002, which was paid in advance") {
		t.Errorf("%+v", o)
	}
	mustLaunch(t, d, request(spec, o, 1))
	form, _ := url.ParseQuery(f.Records("RunInstances")[0].Body)
	if form.Get("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId") != "cr-00000002" || form.Get("InstanceMarketOptions.MarketType") != "capacity-block" {
		t.Errorf("%v", form)
	}
	if all := named(cloudtest.AllOffers(t, d, a10g.Query())); !slices.Equal(all, []string{"g5.xlarge rejected"}) {
		t.Errorf("%q", all)
	}
	f.Do(func() { delete(f.reserved, "cr-00000002") })
	req := request(spec, o, 2)
	req.Nodes, req.Token = req.Nodes[1:], "second"
	_, err := d.Launch(t.Context(), req)
	is(t, err, driver.ErrNotFound, "launch")
}

// The preference for open reservations is in every way to launch.
func TestReservationPreference(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f, func(c *Config) { c.CapacityReservationPreference = "none" })
	o := offer(t, d, a10g, "g5.xlarge")
	mustLaunch(t, d, request(a10g, o, 1))
	f.Do(func() { f.noFleets = true })
	req := request(a10g, o, 2)
	req.Nodes, req.Token = req.Nodes[1:], "second"
	mustLaunch(t, d, req)
	for op, key := range map[string]string{
		"CreateLaunchTemplate": "LaunchTemplateData.CapacityReservationSpecification.CapacityReservationPreference",
		"RunInstances":         "CapacityReservationSpecification.CapacityReservationPreference",
	} {
		if form, _ := url.ParseQuery(f.Records(op)[0].Body); form.Get(key) != "none" {
			t.Errorf("%s: %v", op, form)
		}
	}
}
