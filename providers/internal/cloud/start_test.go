package cloud

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/bubble"
)

// A machine that was made and cannot be started is ended, and the error is of what has failed.
func TestStart(t *testing.T) {
	stock := &gputrain.Error{Kind: gputrain.ErrNoCapacity, Err: errors.New("none left")}
	for name, tt := range map[string]struct {
		api  starting
		left []string
		kind error
	}{
		"started":                           {api: starting{}, left: []string{"m1"}},
		"not started":                       {api: starting{fails: stock}, kind: gputrain.ErrNoCapacity},
		"not started, and cannot be ended":  {api: starting{fails: stock, stuck: true}, left: []string{"m1"}, kind: gputrain.ErrNoCapacity},
		"not started, and not known yet":    {api: starting{fails: stock, tooNew: true}, left: []string{"m1"}, kind: gputrain.ErrNoCapacity},
		"not started, and ended late":       {api: starting{fails: stock, undone: 2}, kind: gputrain.ErrNoCapacity},
		"not started, and never ended":      {api: starting{fails: stock, undone: -1}, left: []string{"m1"}, kind: gputrain.ErrNoCapacity},
		"made by a call without its answer": {api: starting{lost: true}, left: []string{"m1"}},
		"the same, and not started":         {api: starting{lost: true, fails: stock}, kind: gputrain.ErrNoCapacity},
	} {
		bubbled(t, name, func(t *testing.T) {
			api := tt.api
			d := New("acme", &api, Options{})
			defer d.Close()
			got, err := d.Launch(t.Context(), gputrain.LaunchRequest{
				Pool:  gputrain.PoolInfo{ID: "p1", AuthorizedKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICOA76qIYROc7PnGRwv6p8T1jyHKUymIN5JXz3yFMJoB"},
				Nodes: []gputrain.NodeRequest{{Name: "p1-0"}},
			})
			if !errors.Is(err, tt.kind) || (tt.kind == nil) != (err == nil) {
				t.Errorf("%v", err)
			}
			if !slices.Equal(api.have, tt.left) || len(got) != len(tt.left) || api.starts != 1 {
				t.Errorf("there is %q after %d starts, and Launch returns %+v", api.have, api.starts, got)
			}
			// The caller is to end at once what could not be ended here, not to wait for it.
			if err != nil && len(got) > 0 && (got[0].State != gputrain.InstanceFailed || got[0].StateReason == "") {
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

// Options say whether machines are described by a list, or each by itself.
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

// starting is an API of one machine.
type starting struct {
	fails  error
	lost   bool // Create makes it and says nothing
	stuck  bool // End fails
	tooNew bool // End does not know it
	undone int  // so many ends are granted and not done; less than zero is all
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
		return &gputrain.Error{Kind: gputrain.ErrNotFound, Err: errors.New("no such machine")}
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
		all = append(all, Machine{Instance: gputrain.Instance{ID: id}, Tag: Tag{Pool: "p1", Name: "p1-0"}})
	}
	return all, nil
}

func (a *starting) Machine(_ context.Context, id string) (Machine, error) {
	if a.undone != 0 && slices.Contains(a.have, id) {
		return Machine{Instance: gputrain.Instance{ID: id, State: gputrain.InstanceStopped}, Tag: Tag{Pool: "p1", Name: "p1-0"}}, nil
	}
	return Machine{}, &gputrain.Error{Kind: gputrain.ErrNotFound, Err: errors.New("no such machine")}
}
func (a *starting) Capabilities() gputrain.Capabilities { return gputrain.Capabilities{} }
func (a *starting) Offers(context.Context, gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(func(gputrain.Offer, error) bool) {}
}
func (a *starting) Prepare(context.Context, gputrain.PoolInfo) error { return nil }
func (a *starting) Release(context.Context, gputrain.PoolInfo) error { return nil }
func (a *starting) Shared(context.Context, string) ([]gputrain.Resource, error) {
	return nil, nil
}
func (a *starting) Classify(string, error) (string, error) { return "", nil }
func (a *starting) Close()                                 {}
