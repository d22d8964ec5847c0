package cloud

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// A machine that was made but cannot be started is ended, and the error is the start's.
func TestStart(t *testing.T) {
	stock := &driver.Error{Kind: driver.ErrNoCapacity, Err: errors.New("none left")}
	for name, tt := range map[string]struct {
		api  starting
		left []string
		kind error
	}{
		"started":                           {api: starting{}, left: []string{"m1"}},
		"not started":                       {api: starting{fails: stock}, kind: driver.ErrNoCapacity},
		"not started, and cannot be ended":  {api: starting{fails: stock, stuck: true}, left: []string{"m1"}, kind: driver.ErrNoCapacity},
		"not started, and not known yet":    {api: starting{fails: stock, tooNew: true}, left: []string{"m1"}, kind: driver.ErrNoCapacity},
		"not started, and ended late":       {api: starting{fails: stock, undone: 2}, kind: driver.ErrNoCapacity},
		"not started, and never ended":      {api: starting{fails: stock, undone: -1}, left: []string{"m1"}, kind: driver.ErrNoCapacity},
		"made by a call without its answer": {api: starting{lost: true}, left: []string{"m1"}},
		"the same, and not started":         {api: starting{lost: true, fails: stock}, kind: driver.ErrNoCapacity},
	} {
		bubbled(t, name, func(t *testing.T) {
			api := tt.api
			d := New("acme", &api, Options{})
			defer d.Close()
			got, err := d.Launch(t.Context(), driver.Launch{
				Pool:  driver.PoolInfo{ID: "p1", AuthorizedKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICOA76qIYROc7PnGRwv6p8T1jyHKUymIN5JXz3yFMJoB"},
				Nodes: []driver.NodeRequest{{Name: "p1-0"}},
			})
			if !errors.Is(err, tt.kind) || (tt.kind == nil) != (err == nil) {
				t.Errorf("%v", err)
			}
			if !slices.Equal(api.have, tt.left) || len(got) != len(tt.left) || api.starts != 1 {
				t.Errorf("there is %q after %d starts, and Launch returns %+v", api.have, api.starts, got)
			}
			// The caller must end a machine that could not be ended here, not wait for it.
			if err != nil && len(got) > 0 && (got[0].State != driver.InstanceFailed || got[0].StateReason == "") {
				t.Errorf("beside an error there is %+v", got)
			}
			if wants := tt.api.undone + 1; tt.api.undone > 0 && api.ends != wants {
				t.Errorf("its end was asked for %d times, want %d", api.ends, wants)
			}
		})
	}
}

// bubbled runs a subtest in virtual time.
func bubbled(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { bubble.Test(t, f) })
}

// Options decide whether machines are described by a list or one by one.
func TestHowMachinesAreDescribed(t *testing.T) {
	for ids, want := range map[int]map[Options]int{
		1: {{}: 0, {ByList: true}: 1, {ByID: true}: 0},
		2: {{}: 1, {ByList: true}: 1, {ByID: true}: 0},
	} {
		for opts, lists := range want {
			api := starting{have: []string{"m1", "m2"}}
			d := New("acme", &api, opts)
			defer d.Close()
			if _, err := d.Describe(t.Context(), api.have[:ids]...); err != nil || api.lists != lists {
				t.Errorf("%d under %+v: %d lists, %v", ids, opts, api.lists, err)
			}
		}
	}
}

// starting is an API with at most one machine.
type starting struct {
	fails  error
	lost   bool // Create makes the machine, and its answer is lost
	stuck  bool // End fails
	tooNew bool // End answers that the machine does not exist
	undone int  // how many ends are accepted without effect; negative means all
	ends   int
	have   []string
	starts int
	lists  int
}

func (a *starting) Create(context.Context, Order) (string, error) {
	a.have = []string{"m1"}
	if a.lost {
		return "", context.DeadlineExceeded
	}
	return "m1", nil
}

func (a *starting) Start(_ context.Context, id string, _ Order) error {
	if a.starts++; id != "m1" {
		return errors.New("what is " + id)
	}
	return a.fails
}

func (a *starting) End(context.Context, string) error {
	if a.stuck {
		return errors.New("stuck")
	}
	if a.tooNew {
		return &driver.Error{Kind: driver.ErrNotFound, Err: errors.New("no such machine")}
	}
	if a.ends++; a.undone < 0 || a.ends <= a.undone {
		return nil
	}
	a.have = nil
	return nil
}

func (a *starting) Machines(context.Context, string) (all []Machine, err error) {
	a.lists++
	for _, id := range a.have {
		all = append(all, Machine{Instance: driver.Instance{ID: id}, Tag: pooltag.Tag{Pool: "p1", Name: "p1-0"}})
	}
	return all, nil
}

func (a *starting) Machine(_ context.Context, id string) (Machine, error) {
	if a.undone != 0 && slices.Contains(a.have, id) {
		return Machine{Instance: driver.Instance{ID: id, State: driver.InstanceStopped}, Tag: pooltag.Tag{Pool: "p1", Name: "p1-0"}}, nil
	}
	return Machine{}, &driver.Error{Kind: driver.ErrNotFound, Err: errors.New("no such machine")}
}
func (a *starting) Capabilities() driver.Capabilities { return driver.Capabilities{} }
func (a *starting) Offers(context.Context, driver.Query) iter.Seq2[driver.Offer, error] {
	return func(func(driver.Offer, error) bool) {}
}
func (a *starting) Prepare(context.Context, driver.PoolInfo) error { return nil }
func (a *starting) Release(context.Context, driver.PoolInfo) error { return nil }
func (a *starting) Shared(context.Context, string) ([]driver.Resource, error) {
	return nil, nil
}
func (a *starting) Classify(string, error) (string, error) { return "", nil }
func (a *starting) Close()                                 {}
