package runpod

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// The price of a pod has its disk and its volume, of the sizes that a launch makes.
func TestPriceHasTheStorage(t *testing.T) {
	f := startFake(t)
	for _, tt := range []struct {
		name         string
		change       func(*Config)
		spec         gputrain.Spec
		machine      float64
		disk, volume float64 // GB
	}{
		{"defaults", nil, gputrain.Spec{Accelerator: accelerators.H100()}, 2.99, 50, 20},
		{"sizes", func(c *Config) { c.ContainerDiskGB, c.VolumeGB = 200, 100 }, gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(2))}, 5.98, 200, 100},
		{"size of the spec", func(c *Config) { c.VolumeGB = -1 }, gputrain.Spec{Accelerator: accelerators.H100(), DiskGiB: 100}, 2.99, 108, 0},
		{"network volume", nil, gputrain.Spec{Accelerator: accelerators.H100(), Mounts: []driver.Mount{{Source: "data", Target: "/data"}}}, 2.99, 50, 0},
		{"spot", func(c *Config) { c.BidMultiplier = 1.2 }, gputrain.Spec{Accelerator: accelerators.H100(), Allocation: driver.Spot}, 1.8, 50, 20},
		{"CPU", nil, gputrain.Spec{VCPUs: 4}, 0.12, 20, 0},
	} {
		cfg := f.config()
		if tt.change != nil {
			tt.change(&cfg)
		}
		d := open(t, cfg)
		req := request(t, d, tt.spec, 1)
		want := tt.machine + 0.1*(tt.disk+tt.volume)/720
		parts := 0.0
		for _, p := range req.Offer.Parts {
			parts += p.HourlyUSD
		}
		usd, _ := req.Offer.HourlyUSD.USD()
		machine, _ := machineUSD(req.Offer)
		if math.Abs(usd-want) > 1e-9 || math.Abs(parts-want) > 1e-9 || math.Abs(machine-tt.machine) > 1e-9 || math.Abs(req.Offer.DiskGiB-tt.disk*1e9/gib) > 1e-9 {
			t.Errorf("%s: %v for %v GiB, with the parts %v; want $%v", tt.name, req.Offer.HourlyUSD, req.Offer.DiskGiB, req.Offer.Parts, want)
		}
		got, err := d.Launch(t.Context(), req)
		if err != nil {
			t.Fatal(tt.name, err)
		}
		for _, d := range []driver.Driver{d, open(t, cfg)} { // by another program, too
			now, err := d.Describe(t.Context(), got[0].ID)
			if err != nil || now[0].Offer.HourlyUSD != req.Offer.HourlyUSD || fmt.Sprint(now[0].Offer.Parts) != fmt.Sprint(req.Offer.Parts) {
				t.Errorf("%s: %v, %+v", tt.name, err, now)
			}
		}
		if tt.spec.Allocation == driver.Spot && sent(t, f, opSpot)["bidPerGpu"] != tt.machine {
			t.Errorf("the bid is %v, which is for the machine alone: want %v", sent(t, f, opSpot)["bidPerGpu"], tt.machine)
		}
		f.set(got[0].ID, object{"status": "EXITED", "cost": 0.0})
		now, err := d.Describe(t.Context(), got[0].ID)
		if usd, _ := now[0].Offer.HourlyUSD.USD(); err != nil || tt.volume > 0 && math.Abs(usd-0.2*tt.volume/720) > 1e-9 {
			t.Errorf("%s, stopped: $%v, %v", tt.name, usd, err)
		}
		if err := d.Terminate(t.Context(), got[0].ID); err != nil {
			t.Error(err)
		}
	}
}

// A launch needs money for an hour.
func TestBalance(t *testing.T) {
	f := startFake(t)
	d := open(t, f.config())
	spec := gputrain.Spec{Accelerator: accelerators.H100()}
	offer := request(t, d, spec, 1).Offer
	f.Do(func() { f.balance = 1.5 })
	b, err := d.(driver.Balancer).Balance(t.Context(), offer)
	if want := (driver.Balance{Known: true, USD: 1.5, LeastHours: 1}); err != nil || b != want {
		t.Errorf("%+v, %v; want %+v", b, err, want)
	}
	before := len(f.Records(opCreate))
	pool, err := gputrain.Open(t.Context(), f.config(), spec, gputrain.WithStateDir(t.TempDir()))
	if pool != nil {
		pool.Close()
	}
	if !errors.Is(err, driver.ErrBalance) || !strings.Contains(err.Error(), "the account has $1.50, and a launch needs $3.00") || len(f.Records(opCreate)) != before {
		t.Errorf("%v", err)
	}
	f.Inject(faultAnswer("myself", 1, 200, `{"data":{"myself":{"clientBalance":null}}}`))
	if b, err := d.(driver.Balancer).Balance(t.Context(), offer); err != nil || b.Known {
		t.Errorf("no balance: %+v, %v", b, err)
	}
	f.Inject(faultAnswer("myself", 1, 410, `{"message":"Gone"}`))
	_, err = d.(driver.Balancer).Balance(t.Context(), offer)
	wantKind(t, "without GraphQL", err, driver.ErrUnsupported, "GraphQL", "balance")
}

// The account's spend limit is a quota. It is asked for once a minute.
func TestSpendLimit(t *testing.T) {
	f := startFake(t)
	f.Do(func() { f.spent = 70 })
	d := open(t, f.config())
	offer := request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 1).Offer
	before := len(f.Records("myself"))
	for range 3 {
		q, err := d.(driver.Quoter).Quota(t.Context(), offer)
		if err != nil || !q.Known || q.Machines != 3 || q.Reason != "the account's spend limit at RunPod is $80.00 an hour, of which $70.00 are used; a machine costs $3.00" {
			t.Errorf("%+v, %v", q, err)
		}
	}
	if n := len(f.Records("myself")) - before; n != 1 {
		t.Errorf("%d questions", n)
	}
	for _, answer := range []string{`{"data":{"myself":{"clientBalance":5}}}`, `{"data":{"myself":{"spendLimit":0,"currentSpendPerHr":0}}}`} {
		d := open(t, f.config())
		f.Inject(faultAnswer("myself", 1, 200, answer))
		if q, err := d.(driver.Quoter).Quota(t.Context(), offer); err != nil || q.Known {
			t.Errorf("%s: %+v, %v", answer, q, err)
		}
	}
	d = open(t, f.config())
	if q, err := d.(driver.Quoter).Quota(cancelled(t), offer); err == nil || q.Known {
		t.Errorf("of a caller that has given up: %+v, %v", q, err)
	}
	if q, err := d.(driver.Quoter).Quota(t.Context(), offer); err != nil || q.Machines != 3 {
		t.Errorf("the next caller: %+v, %v", q, err)
	}
	f.Do(func() { f.spent = 90 })
	if q, err := open(t, f.config()).(driver.Quoter).Quota(t.Context(), offer); err != nil || !q.Known || q.Machines != 0 {
		t.Errorf("above the limit: %+v, %v", q, err)
	}
}

// A data centre's name has its country.
func TestCountries(t *testing.T) {
	for region, want := range map[string]string{
		"US-TX-3": "US", "US-DE-1": "US", "CA-MTL-3": "CA", "EU-RO-1": "RO", "EUR-IS-2": "IS", "AP-JP-1": "JP", "OC-AU-1": "AU", "FR": "FR",
		anywhere: "", "": "", "EU": "", "MARS-1": "",
	} {
		if got := countryOf(region); got != want {
			t.Errorf("%q is in %q; want %q", region, got, want)
		}
	}
}

// Ports are published at others, which a running pod reports.
func TestPorts(t *testing.T) {
	f := startFake(t)
	cfg := f.config()
	cfg.Ports = []string{"5000/tcp", "8888/http"}
	d := open(t, cfg)
	in := launchOne(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, false)
	port := func(private, public int, kind, ip string) object {
		return object{"private": private, "public": public, "type": kind, "ip": ip}
	}
	f.set(in.ID, object{"runtime": object{"uptime": 1, "ports": []object{
		port(22, 34446, "tcp", "203.0.113.7"), port(5000, 34447, "tcp", "203.0.113.7"), port(8888, 60000, "http", "100.65.0.1"), port(6000, 0, "tcp", "203.0.113.7"),
	}}})
	now, err := d.Describe(t.Context(), in.ID)
	if err != nil || fmt.Sprint(now[0].Ports) != "map[22:203.0.113.7:34446 5000:203.0.113.7:34447]" {
		t.Errorf("%v, %+v", err, now)
	}
}
