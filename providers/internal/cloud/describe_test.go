package cloud

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// memory is an API with machines in memory, by their IDs. It lacks an API's other methods.
type memory struct {
	API
	machines map[string]Machine
	lag      time.Duration
	odd      map[string]error // errors of reads, by ID
}

func (m *memory) Capabilities() driver.Capabilities             { return driver.Capabilities{ListLag: m.lag} }
func (m *memory) Classify(string, error) (_ string, kind error) { return "", nil }

func (m *memory) Machine(_ context.Context, id string) (Machine, error) {
	if it, ok := m.machines[id]; ok || m.odd[id] != nil {
		return it, m.odd[id]
	}
	return Machine{}, &driver.Error{Kind: driver.ErrNotFound}
}

func (m *memory) Machines(context.Context, string) (all []Machine, _ error) {
	for _, it := range m.machines {
		all = append(all, it)
	}
	return all, nil
}

func (m *memory) Create(_ context.Context, o Order) (string, error) {
	m.machines[o.Node.Name] = Machine{Tag: o.Tag, Instance: driver.Instance{
		ID: o.Node.Name, State: driver.InstanceRunning, Offer: driver.Offer{Region: "us-central-1", HourlyUSD: driver.USD(0.5)},
	}}
	return o.Node.Name, nil
}

func (m *memory) End(ctx context.Context, id string) error {
	_, err := m.Machine(ctx, id)
	delete(m.machines, id)
	return err
}

func launched(t *testing.T, d *Driver, o driver.Offer) string {
	t.Helper()
	got, err := d.Launch(t.Context(), driver.Launch{
		Pool: driver.PoolInfo{ID: "p1", AuthorizedKey: aKey}, Offer: o, Nodes: []driver.NodeRequest{{Name: "p1-0"}},
	})
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	return got[0].ID
}

func described(t *testing.T, d *Driver, id string) driver.Instance {
	t.Helper()
	got, err := d.Describe(t.Context(), id)
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	return got[0]
}

// Describe prefers the cloud's report of a machine to the offer of its launch.
func TestDescribePrefersTheCloudsReport(t *testing.T) {
	d := New("test", &memory{machines: map[string]Machine{}}, Options{})
	in := described(t, d, launched(t, d, driver.Offer{InstanceType: "l40", Region: "any", HourlyUSD: driver.USD(0.8), MemoryGiB: 72}))
	if in.Offer.Region != "us-central-1" || in.Offer.HourlyUSD != driver.USD(0.5) || in.Offer.MemoryGiB != 72 || in.Offer.Provider != "test" {
		t.Errorf("%+v", in.Offer)
	}
}

func TestWhatIsNotKnown(t *testing.T) {
	for _, tt := range []struct {
		name           string
		spot, vanishes bool
		lag            time.Duration
		end            bool
		want           driver.InstanceState
	}{
		{"too new", false, true, time.Hour, false, driver.InstancePending},
		{"gone", false, true, 0, false, driver.InstanceTerminated},
		{"ended here", true, true, time.Hour, true, driver.InstanceTerminated},
		{"spot", true, true, 0, false, driver.InstancePreempted},
		{"spot, of a cloud that has a state for it", true, false, 0, false, driver.InstanceTerminated},
	} {
		api := &memory{machines: map[string]Machine{}, lag: tt.lag}
		d := New("test", api, Options{SpotVanishes: tt.vanishes})
		id := launched(t, d, driver.Offer{InstanceType: "l40", Spot: tt.spot})
		described(t, d, id)
		if tt.end {
			if err := d.Terminate(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		delete(api.machines, id)
		if in := described(t, d, id); in.State != tt.want {
			t.Errorf("%s: %v", tt.name, in.State)
		}
		if tt.lag == 0 { // ending a missing machine succeeds, and then it was not preempted
			if err := d.Terminate(t.Context(), id); err != nil || described(t, d, id).State != driver.InstanceTerminated {
				t.Errorf("%s: %v; then it is %v", tt.name, err, described(t, d, id).State)
			}
		}
	}
}

// A machine that cannot be read does not hide the other machines.
func TestDescribeBesideAnError(t *testing.T) {
	odd := errors.New("odd")
	api := &memory{machines: map[string]Machine{"m1": {Instance: driver.Instance{ID: "m1"}}}, odd: map[string]error{"m2": odd}}
	got, err := New("test", api, Options{ByID: true}).Describe(t.Context(), "m1", "m2", "m3")
	if !errors.Is(err, odd) || len(got) != 2 || got[0].ID != "m1" || got[1].ID != "m3" {
		t.Errorf("%+v, %v", got, err)
	}
}
