package cloud

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
)

// memory is a cloud of machines in memory, by their IDs. What else an API has it lacks.
type memory struct {
	API
	machines map[string]Machine
	lag      time.Duration
	odd      map[string]error // of reads, by ID
}

func (m *memory) Capabilities() gputrain.Capabilities           { return gputrain.Capabilities{ListLag: m.lag} }
func (m *memory) Classify(string, error) (_ string, kind error) { return "", nil }

func (m *memory) Machine(_ context.Context, id string) (Machine, error) {
	if it, ok := m.machines[id]; ok || m.odd[id] != nil {
		return it, m.odd[id]
	}
	return Machine{}, &gputrain.Error{Kind: gputrain.ErrNotFound}
}

func (m *memory) Machines(context.Context, string) (all []Machine, _ error) {
	for _, it := range m.machines {
		all = append(all, it)
	}
	return all, nil
}

func (m *memory) Create(_ context.Context, o Order) (string, error) {
	m.machines[o.Node.Name] = Machine{Tag: o.Tag, Instance: gputrain.Instance{
		ID: o.Node.Name, State: gputrain.InstanceRunning, Offer: gputrain.Offer{Region: "us-central-1", HourlyUSD: gputrain.USD(0.5)},
	}}
	return o.Node.Name, nil
}

func (m *memory) End(ctx context.Context, id string) error {
	_, err := m.Machine(ctx, id)
	delete(m.machines, id)
	return err
}

func launched(t *testing.T, d *Driver, o gputrain.Offer) string {
	t.Helper()
	got, err := d.Launch(t.Context(), gputrain.LaunchRequest{
		Pool: gputrain.PoolInfo{ID: "p1", AuthorizedKey: aKey}, Offer: o, Nodes: []gputrain.NodeRequest{{Name: "p1-0"}},
	})
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	return got[0].ID
}

func described(t *testing.T, d *Driver, id string) gputrain.Instance {
	t.Helper()
	got, err := d.Describe(t.Context(), id)
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	return got[0]
}

// What the cloud tells of a machine counts before the offer that it was launched by.
func TestDescribeTellsWhatTheCloudTells(t *testing.T) {
	d := New("test", &memory{machines: map[string]Machine{}}, Options{})
	in := described(t, d, launched(t, d, gputrain.Offer{InstanceType: "l40", Region: "any", HourlyUSD: gputrain.USD(0.8), MemoryGiB: 72}))
	if in.Offer.Region != "us-central-1" || in.Offer.HourlyUSD != gputrain.USD(0.5) || in.Offer.MemoryGiB != 72 || in.Offer.Provider != "test" {
		t.Errorf("%+v", in.Offer)
	}
}

func TestWhatIsNotKnown(t *testing.T) {
	for _, tt := range []struct {
		name           string
		spot, vanishes bool
		lag            time.Duration
		end            bool
		want           gputrain.InstanceState
	}{
		{"too new", false, true, time.Hour, false, gputrain.InstancePending},
		{"gone", false, true, 0, false, gputrain.InstanceTerminated},
		{"ended here", true, true, time.Hour, true, gputrain.InstanceTerminated},
		{"spot", true, true, 0, false, gputrain.InstancePreempted},
		{"spot, of a cloud that has a state for it", true, false, 0, false, gputrain.InstanceTerminated},
	} {
		api := &memory{machines: map[string]Machine{}, lag: tt.lag}
		d := New("test", api, Options{SpotVanishes: tt.vanishes})
		id := launched(t, d, gputrain.Offer{InstanceType: "l40", Spot: tt.spot})
		if tt.end {
			if err := d.Terminate(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		delete(api.machines, id)
		if in := described(t, d, id); in.State != tt.want {
			t.Errorf("%s: %v", tt.name, in.State)
		}
		if tt.lag == 0 { // the end of what is gone is a success, after which nothing was preempted
			if err := d.Terminate(t.Context(), id); err != nil || described(t, d, id).State != gputrain.InstanceTerminated {
				t.Errorf("%s: %v; then it is %v", tt.name, err, described(t, d, id).State)
			}
		}
	}
}

// A machine that cannot be read takes from nobody what is told of the others.
func TestDescribeBesideAnError(t *testing.T) {
	odd := errors.New("odd")
	api := &memory{machines: map[string]Machine{"m1": {Instance: gputrain.Instance{ID: "m1"}}}, odd: map[string]error{"m2": odd}}
	got, err := New("test", api, Options{ByID: true}).Describe(t.Context(), "m1", "m2", "m3")
	if !errors.Is(err, odd) || len(got) != 2 || got[0].ID != "m1" || got[1].ID != "m3" {
		t.Errorf("%+v, %v", got, err)
	}
}
