package jarvislabs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/internal/currency"
)

func TestOffers(t *testing.T) {
	t.Parallel()
	spec := func(a accelerators.Accelerator, change func(*gputrain.Spec)) gputrain.Spec {
		s := gputrain.Spec{Accelerator: a}
		if change != nil {
			change(&s)
		}
		return s
	}
	for _, tt := range []struct {
		name     string
		region   string
		template string
		spec     gputrain.Spec
		want     []string
	}{
		{"groups of one kind together, in the order of regions", "", "", l4, []string{
			"IN2 L4 $0.45 14 " + noida + "/L4/1/on-demand", "IN1 L4 $0.45 4 " + chennai + "/L4/1/on-demand",
		}},
		// Six and eight GPUs are free: that is one machine with seven, not two.
		{"a machine is in one group", "", "", spec(accelerators.L4(accelerators.Count(7)), nil), []string{"IN2 L4:7 $3.09 1 " + noida + "/L4/7/on-demand"}},
		{"spot first where both will do", "in2", "", spec(accelerators.L4(), func(s *gputrain.Spec) { s.Allocation = driver.SpotIfAvailable }), []string{
			"IN2 L4 $0.30 14 " + noida + "/L4/1/spot spot", "IN2 L4 $0.45 14 " + noida + "/L4/1/on-demand",
		}},
		{"no spot in Europe", "EU1", "", spec(accelerators.H100(), func(s *gputrain.Spec) { s.Allocation = driver.Spot }), nil},
		{"one GPU in Europe", "", "", spec(accelerators.H100(), nil), []string{"EU1 H100-SXM $3.00 8 " + eu + "/H100/1/on-demand"}},
		{"or eight, and not two", "", "", spec(accelerators.H100(accelerators.Count(2)), nil), nil},
		{"eight where more will do", "", "", spec(accelerators.H100(accelerators.AtLeast(2)), nil), []string{"EU1 H100-SXM:8 $23.93 1 " + eu + "/H100/8/on-demand"}},
		{"not more GPUs than one for their processors", "IN1", "", spec(accelerators.L4(), func(s *gputrain.Spec) { s.VCPUs = 57 }), nil},
		{"more GPUs for their processors", "IN1", "", spec(accelerators.L4(accelerators.CountBetween(1, 3)), func(s *gputrain.Spec) { s.VCPUs = 57 }), []string{"IN1 L4:3 $1.33 1 " + chennai + "/L4/3/on-demand"}},
		{"or for their memory", "IN1", "", spec(accelerators.L4(accelerators.CountBetween(1, 2)), func(s *gputrain.Spec) { s.MemoryGiB = 248 }), []string{"IN1 L4:2 $0.89 2 " + chennai + "/L4/2/on-demand"}},
		{"but not more than there are", "", "", spec(accelerators.L4(accelerators.AtLeast(1)), func(s *gputrain.Spec) { s.MemoryGiB = 1e6 }), nil},
		{"an A100 has 40 GB, whatever the memory says", "", "", spec(accelerators.A100(), nil), []string{"IN2 A100-40GB $0.90 1 " + noida + "/A100/1/on-demand"}},
		{"so it is no A100 of 80", "", "", spec(accelerators.A100(accelerators.Memory(80)), nil), nil},
		{"regions of the spec by either name", "", "", spec(accelerators.L4(), func(s *gputrain.Spec) { s.Regions = []string{"us-east-1", chennai} }),
			[]string{chennai + " L4 $0.45 4 " + chennai + "/L4/1/on-demand"}},
		{"groups that have virtual machines, or both", "", "vm", l4, []string{
			"IN2 L4 $0.45 8 " + noida + "/L4/1/on-demand", "IN1 L4 $0.45 4 " + chennai + "/L4/1/on-demand",
		}},
	} {
		f := startFake(t)
		cfg := f.config()
		cfg.Region, cfg.Template = tt.region, tt.template
		var got []string
		for _, o := range cloudtest.Offers(t, cloudtest.Open(t, cfg), tt.spec.Query()) {
			s := fmt.Sprintf("%s %v %v %d %s", o.Region, o.Accelerator, o.HourlyUSD, o.Available, o.ID)
			if o.Spot {
				s += " spot"
			}
			got = append(got, s)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q; want %q", tt.name, got, tt.want)
		}
	}
}

// An offer promises what both groups have, at the higher price.
func TestOffersOfUnequalGroups(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.groups = []row{
		groupRow("L4", noida, 2, row{"price_per_hour": 0.40, "cpus_per_gpu": "16"}), groupRow("L4", noida, 2, row{"price_per_hour": 0.50, "ram_per_gpu": 64}),
		groupRow("L4", noida, 1, row{"effective_num_free_devices": 0}), groupRow("L4", chennai, 1, nil), groupRow("L4", chennai, 1, row{"price_per_hour": nil}),
		groupRow("X9000", chennai, 1, row{"vram": "512"}),
	}
	d := cloudtest.Open(t, f.config())
	all := cloudtest.Offers(t, d, l4.Query())
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	if o := all[0]; o.VCPUs != 16 || o.MemoryGiB != 64 || o.HourlyUSD != driver.USD(0.5+50*storageUSD) || o.Available != 4 || o.DiskGiB != 50 {
		t.Errorf("%+v", o)
	}
	if _, known := all[1].HourlyUSD.USD(); known {
		t.Errorf("one of the two prices is not known: %+v", all[1])
	}
	all = cloudtest.Offers(t, d, driver.Query{Accelerator: accelerators.Exact("X9000")})
	if len(all) != 1 || !all[0].Accelerator.Exact || all[0].Accelerator.MemoryGiB != 512 {
		t.Errorf("%+v", all)
	}
}

// A price in another currency is converted, and the offer says at which rate. A price in a currency
// without a rate is unknown. Spot is offered nevertheless.
func TestOffersInAnotherCurrency(t *testing.T) {
	f := startFake(t)
	f.Do(func() { f.currency = "inr" })
	for rates, want := range map[string]driver.Price{"": driver.USD(0.44*0.0115 + 50*storageUSD), "INR=0.01@2026-11-20": driver.USD(0.44*0.01 + 50*storageUSD), "INR=x": {}} {
		t.Setenv(currency.Variable, rates)
		d := cloudtest.Open(t, f.config())
		all := cloudtest.Offers(t, d, driver.Query{Accelerator: accelerators.L4(), Allocation: driver.SpotIfAvailable})
		if len(all) != 4 {
			t.Errorf("%+v", all)
		}
		for _, o := range all {
			if !o.Spot && o.HourlyUSD != want || len(o.Warnings) != 1 || !strings.Contains(o.Warnings[0], "its price is in INR") {
				t.Errorf("%q: %+v", rates, o)
			}
		}
		b, err := d.(driver.Balancer).Balance(t.Context(), driver.Offer{})
		if _, known := want.USD(); err != nil || b.Known != known || b.Known && b.USD != 12.5*map[string]float64{"": 0.0115}[rates] && b.USD != 12.5*0.01 {
			t.Errorf("%q: %+v, %v", rates, b, err)
		}
	}
}

// The wallet's money counts with grants. The account's currency is asked for if no offers have told it.
func TestBalance(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config()).(driver.Balancer)
	for range 2 {
		if b, err := d.Balance(t.Context(), driver.Offer{}); err != nil || b != (driver.Balance{Known: true, USD: 12.5}) {
			t.Errorf("%+v, %v", b, err)
		}
	}
	if n := len(f.Records(opGroups)); n != 1 {
		t.Errorf("the currency was asked for %d times", n)
	}
	f.Inject(fakecloud.Fault{Op: opBalance, Answer: fakecloud.Reply(200, row{})})
	_, err := d.Balance(t.Context(), driver.Offer{})
	cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "balance", testKey)
	other := cloudtest.Open(t, f.config()).(driver.Balancer)
	f.Inject(fakecloud.Fault{Op: opGroups, Answer: fakecloud.Reply(200, row{})})
	_, err = other.Balance(t.Context(), driver.Offer{})
	cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "balance", testKey)
}

// What cannot be had is offered once, with the reason.
func TestRejectedOffers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		region, template string
		spec             gputrain.Spec
		want             []string
	}{
		{"", "", l4, []string{"1x L4 in mars-01 is in a region that gputrain does not know; Config.RegionEndpoints adds its address"}},
		{"IN2", "", l4, []string{"1x L4 in IN1 is in IN1; Config.Region is IN2", "1x L4 in mars-01 is in a region that gputrain does not know; Config.RegionEndpoints adds its address"}},
		{"", "vm", gputrain.Spec{Accelerator: accelerators.A100()}, []string{"1x A100 in IN2 has containers only; Config.Template is vm"}},
		{"", "", gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(2))}, []string{"2x H100 in EU1 EU1 has machines with one GPU or 8"}},
		{"", "", gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2))}, []string{"2x A100 in IN2 has 1 GPUs free; a machine takes 2"}},
		{"", "", gputrain.Spec{Accelerator: accelerators.A30()}, []string{"1x A30 in IN1 is sold out"}},
		{"", "", gputrain.Spec{Accelerator: accelerators.L40S()}, []string{"1x L40S in IN1 has virtual machines only; Config.Template is pytorch"}},
		{"", "", gputrain.Spec{Accelerator: accelerators.H100(accelerators.AtLeast(2))}, nil},
		{"", "", gputrain.Spec{Accelerator: accelerators.L4(), Countries: []string{"us"}}, nil},
		{"", "", gputrain.Spec{Accelerator: accelerators.A30(), Regions: []string{"in"}}, []string{"1x A30 in IN1 is sold out"}},
	} {
		f := startFake(t)
		f.groups = append(f.groups, groupRow("A30", chennai, 0, nil), groupRow("L40S", chennai, 8, row{"workload_type": "vm"}))
		cfg := f.config()
		cfg.Region, cfg.Template = tt.region, tt.template
		if got := cloudtest.Rejected(t, cloudtest.Open(t, cfg), tt.spec.Query()); !slices.Equal(got, tt.want) {
			t.Errorf("%s %s: %q; want %q", tt.region, tt.template, got, tt.want)
		}
	}
}

// The disk is a part of the price.
func TestPartsOfPrices(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	o := cloudtest.Offers(t, cloudtest.Open(t, f.config()), driver.Query{Accelerator: accelerators.L4(accelerators.Count(2)), DiskGiB: 500})[0]
	got := ""
	for _, p := range o.Parts {
		got += fmt.Sprintf("%s %.4f ", p.Name, p.HourlyUSD)
	}
	if got != "machine 0.8800 disk 0.0700 " || o.Country != "IN" || o.Warnings != nil {
		t.Errorf("%+v", o)
	}
}

func TestOffersThatCannotBe(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for _, tt := range []struct {
		template string
		spec     gputrain.Spec
		op       string
		answer   any
		kind     error
	}{
		{"jax", l4, "", nil, driver.ErrInvalid},
		{"", gputrain.Spec{DiskGiB: 2001}, "", nil, driver.ErrNoOffers},
		{"", l4, opGroups, row{"currency": "USD"}, driver.ErrUnavailable},
		{"", l4, opGroups, row{"server_meta": []row{{"region": noida}}}, driver.ErrUnavailable},
		{"", l4, opTemplates, row{}, driver.ErrUnavailable},
	} {
		cfg := f.config()
		cfg.Template = tt.template
		d := cloudtest.Open(t, cfg)
		if tt.op != "" {
			f.Inject(fakecloud.Fault{Op: tt.op, Answer: fakecloud.Reply(200, tt.answer)})
		}
		var err error
		for _, err = range d.Offers(t.Context(), tt.spec.Query()) {
			if err != nil {
				break
			}
		}
		cloudtest.Is(t, err, tt.kind, providerName, "offers", testKey)
	}
}
