package vastai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// The create call's label and parameters have all that is known of the machine.
func TestLaunchTagsInTheCreateCall(t *testing.T) {
	t.Parallel()
	f := startFake(t, row{"min_bid": 0.5})
	f.noMachines = true
	d := prepared(t, f)
	spec := gputrain.Spec{Allocation: driver.Spot}
	req := request(spec, cloudtest.AllOffers(t, d, spec.Query())[0], 2)
	req.Pool.Expires = time.Now().Add(time.Hour)
	got, err := d.Launch(t.Context(), req)
	if err != nil || len(got) != 1 || got[0].Name != "p1-2" || got[0].Rank != 2 || got[0].ID == "" {
		t.Fatalf("%+v, %v", got, err)
	}
	if usd, _ := got[0].Offer.HourlyUSD.USD(); !near(usd, 0.6+100*0.144/720) || !got[0].Offer.Spot {
		t.Errorf("the price is not what is charged: %+v", got[0].Offer)
	}
	r := f.Records(opCreate)[0]
	var in createRequest
	if err := json.Unmarshal([]byte(r.Body), &in); err != nil {
		t.Fatal(err)
	}
	if r.Path != "/api/v0/asks/1000/" || in.ClientID != "me" || in.Image != DefaultImage || in.Disk != 100 || in.RunType != "ssh_direct" ||
		in.TargetState != "running" || !in.CancelUnavail || in.Price == nil || *in.Price != 0.6 || in.Env != nil {
		t.Errorf("%s: %+v", r.Path, in)
	}
	tag, ok := labels.Parse(in.Label)
	if !ok || tag.Pool != "p1" || tag.Name != "p1-2" || tag.Rank != 2 || tag.Owner != req.Pool.Owner || tag.Lease != time.Minute ||
		tag.Expires.Unix() != req.Pool.Expires.Unix() || time.Since(tag.Created) > time.Minute {
		t.Errorf("%s: %+v", in.Label, tag)
	}
	listed, err := d.List(t.Context(), "p1")
	if err != nil || len(listed) != 2 || listed[0].Kind != "machine" || listed[0].ID != got[0].ID || listed[0].Name != "p1-2" || listed[0].Owner != req.Pool.Owner ||
		listed[0].Lease != time.Minute || listed[0].Expires.IsZero() || listed[0].Created.IsZero() || listed[0].State != driver.InstanceRunning || listed[1].Kind != "key" {
		t.Errorf("%+v, %v", listed, err)
	}
}

// A spot offer is never rented without a bid: a create without a price would be on demand.
func TestSpotIsNeverRentedWithoutABid(t *testing.T) {
	t.Parallel()
	f := startFake(t, row{"min_bid": "-"}, row{"min_bid": 500.0})
	f.noMachines = true
	d := prepared(t, f)
	for _, o := range cloudtest.AllOffers(t, d, driver.Query{Allocation: driver.Spot}) {
		_, err := d.Launch(t.Context(), request(gputrain.Spec{}, o, 0))
		is(t, err, driver.ErrNoCapacity, "launch")
	}
	_, err := d.Launch(t.Context(), request(gputrain.Spec{}, driver.Offer{ID: "7/bid", Spot: true}, 0))
	is(t, err, driver.ErrInvalid, "launch")
	if n := len(f.Records(opCreate)); n != 0 {
		t.Errorf("%d creates", n)
	}
}

// A lost bid's answer is a failure that names an instance, stopped, with a disk that is
// billed. The instance is destroyed.
func TestStoppedContractTrap(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.noMachines = true
	d := prepared(t, f)
	spec := gputrain.Spec{Allocation: driver.Spot}
	o := cloudtest.AllOffers(t, d, spec.Query())[0]
	f.Do(func() { f.asks[0]["min_bid"] = 0.9 }) // meanwhile another user bids more
	got, err := d.Launch(t.Context(), request(spec, o, 0))
	is(t, err, driver.ErrNoCapacity, "launch")
	if live := f.live(); len(got) != 0 || len(live) != 1 {
		t.Errorf("%+v; left: %v", got, live)
	}
}

// An instance that any failed create names is destroyed. If it cannot be destroyed, it
// is returned with the error, as a failed instance.
func TestWhatAFailedCreateLeavesIsDestroyedOrReturned(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		stays  bool
		undone int // how many destroys are answered without effect
	}{
		"400": {400, false, 0}, "200": {200, false, 0}, "500": {500, false, 0}, "stays": {200, true, 0},
		"destroyed late": {200, false, 2}, "destroyed never": {200, true, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.undone < 0 && testing.Short() {
				t.Skip("scripts/test -deep runs it: the destroy is repeated for a minute")
			}
			f := startFake(t, nil)
			f.noMachines = true
			d := prepared(t, f)
			made := f.lastID + 1 // the handler makes it before its answer is replaced
			f.Inject(fakecloud.Fault{Op: opCreate, After: true, Answer: fakecloud.Failure(tt.status, row{"success": false, "error": "odd", "new_contract": made}, "")})
			if tt.undone != 0 {
				f.Inject(fakecloud.Fault{Op: opDestroy, Undone: true, Times: tt.undone})
			} else if tt.stays {
				f.Inject(fakecloud.Fault{Op: opDestroy, Times: -1, Answer: fakecloud.Failure(403, "", "")})
			}
			got, err := launch(t, d, gputrain.Spec{}, 0)
			if err == nil {
				t.Error("the failure is lost")
			}
			if !tt.stays {
				if live := f.live(); len(got) != 0 || len(live) != 1 {
					t.Errorf("%+v; left: %v", got, live)
				}
				return
			}
			if len(got) != 1 || got[0].ID != fmt.Sprint(made) || got[0].State != driver.InstanceFailed || got[0].Name != "p1-0" || !strings.Contains(err.Error(), got[0].ID) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// A create whose answer is lost is found by its label and adopted. It is never repeated.
func TestCreateIsNeverRepeated(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault fakecloud.Fault
		made  bool
	}{
		"cut before the effect":    {fakecloud.Fault{Cut: true}, false},
		"cut after the effect":     {fakecloud.Fault{Cut: true, After: true}, true},
		"500 before the effect":    {fakecloud.Fault{Answer: fakecloud.Failure(500, "", "")}, false},
		"502 after the effect":     {fakecloud.Fault{Answer: fakecloud.HTML().With("X", "y"), After: true}, true},
		"503 after the effect":     {fakecloud.Fault{Answer: fakecloud.Failure(503, "", "1"), After: true}, true},
		"garbage after the effect": {fakecloud.Fault{Answer: fakecloud.Garbage(), After: true}, true},
		"no contract in success":   {fakecloud.Fault{Answer: fakecloud.Failure(200, row{"success": true}, ""), After: true}, true},
		"nothing after the effect": {fakecloud.Fault{Answer: fakecloud.Empty(), After: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t, nil, nil)
			f.noMachines = true
			d := prepared(t, f)
			tt.fault.Op = opCreate
			f.Inject(tt.fault)
			f.Inject(fakecloud.Fault{Op: opList, Lag: fakecloud.Lag{Calls: 3}}) // the first look is too early
			got, err := launch(t, d, gputrain.Spec{}, 0)
			if tt.made && (err != nil || len(got) != 1 || got[0].Name != "p1-0" || got[0].State != driver.InstanceRunning) {
				t.Errorf("it was made, and is not adopted: %+v, %v", got, err)
			}
			if !tt.made {
				is(t, err, driver.ErrUnavailable, "launch")
				if len(got) != 0 {
					t.Errorf("%+v", got)
				}
			}
			if n := len(f.Records(opCreate)); n != 1 {
				t.Errorf("%d creates", n)
			}
		})
	}
}

// A caller that cancels during a create learns of its instance.
func TestCreateThatIsGivenUpIsSettled(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.noMachines = true
	d := prepared(t, f)
	o := cloudtest.AllOffers(t, d, driver.Query{})[0]
	hold := make(chan struct{})
	defer close(hold)
	fault := f.Inject(fakecloud.Fault{Op: opCreate, After: true, Hold: hold})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-fault.Reached(); cancel() }()
	got, err := d.Launch(ctx, request(gputrain.Spec{}, o, 0))
	if !errors.Is(err, context.Canceled) || len(got) != 1 || got[0].ID == "" {
		t.Errorf("%+v, %v", got, err)
	}
	// If the instance is not listed yet, Launch does not wait for it: the pool settles it later.
	f.Do(func() { f.asks = append(f.asks, askRow(1, nil)) })
	o = cloudtest.AllOffers(t, d, driver.Query{})[0]
	before := len(f.Records(opList))
	fault = f.Inject(fakecloud.Fault{Op: opCreate, Hold: hold})
	ctx, cancel = context.WithCancel(t.Context())
	go func() { <-fault.Reached(); cancel() }()
	got, err = d.Launch(ctx, request(gputrain.Spec{}, o, 1))
	is(t, err, driver.ErrUnavailable, "launch")
	if n := len(f.Records(opList)) - before; !errors.Is(err, context.Canceled) || len(got) != 0 || n != 1 {
		t.Errorf("%+v, %v, after %d looks", got, err, n)
	}
}

// After an account is refused for lack of credit, no offer is tried for a while.
func TestAccountWithoutCreditIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil, nil)
	f.noMachines, f.credit = true, 0
	d := prepared(t, f)
	for _, o := range cloudtest.AllOffers(t, d, driver.Query{}) {
		_, err := d.Launch(t.Context(), request(gputrain.Spec{}, o, 0))
		is(t, err, driver.ErrBalance, "launch")
	}
	if n := len(f.Records(opCreate)); n != 1 {
		t.Errorf("%d creates", n)
	}
	d.p.mu.Lock()
	d.p.refusal.at = time.Now().Add(-2 * refusalPause)
	d.p.mu.Unlock()
	f.Do(func() { f.credit = 25 })
	mustLaunch(t, d, gputrain.Spec{}, 0)
}

// An offer is one machine: a launch of two nodes makes one.
func TestSeveralNodesOfOneOffer(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.noMachines = true
	d := prepared(t, f)
	req := request(gputrain.Spec{}, cloudtest.AllOffers(t, d, driver.Query{})[0], 0)
	req.Nodes = append(req.Nodes, driver.NodeRequest{Rank: 1, Name: "p1-1"})
	got, err := d.Launch(t.Context(), req)
	is(t, err, driver.ErrNoCapacity, "launch")
	if len(got) != 1 || got[0].Name != "p1-0" || len(f.Records(opCreate)) != 1 {
		t.Errorf("%+v", got)
	}
	// An offer that another driver found can also be launched, on demand.
	o := req.Offer
	f.Do(func() { f.asks = append(f.asks, askRow(0, nil)) })
	if got, err := f.open().Launch(t.Context(), request(gputrain.Spec{}, o, 5)); err != nil || got[0].Rank != 5 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Terminate destroys instances, as stopped ones are billed. It succeeds for one that is gone.
func TestTerminate(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil, nil, nil, nil, nil, nil, nil)
	f.noMachines = true
	d := prepared(t, f)
	var ids []string
	for i := range 7 {
		ids = append(ids, mustLaunch(t, d, gputrain.Spec{}, i).ID)
	}
	if err := d.Terminate(t.Context()); err != nil {
		t.Error(err)
	}
	f.set(ids[0], row{"actual_status": nil})
	for range 2 { // the second is a repetition
		if err := d.Terminate(t.Context(), ids[0]); err != nil {
			t.Error(err)
		}
		if in := cloudtest.Describe(t, d, ids[0]); in.State != driver.InstanceTerminated {
			t.Errorf("%+v", in)
		}
	}
	if err := f.open().Terminate(t.Context(), ids[0], "17", "no number"); err != nil {
		t.Errorf("gone ones: %v", err)
	}
	f.Inject(fakecloud.Fault{Op: opDestroy, Skip: 1, Answer: fakecloud.Failure(403, row{"error": "x", "msg": "not today"}, "")})
	err := d.Terminate(t.Context(), ids[1:4]...)
	if err == nil || !strings.Contains(err.Error(), ids[2]) || strings.Contains(err.Error(), ids[1]) {
		t.Errorf("%v", err)
	}
	if live := f.live(); len(live) != 5 { // ids[2], ids[4:], the key
		t.Errorf("%v", live)
	}
	// If a destroy reports success but the list has the instance, Describe reports it running.
	f.Inject(fakecloud.Fault{Op: opDestroy, Answer: fakecloud.Failure(200, row{"success": true}, "")})
	if err := d.Terminate(t.Context(), ids[2]); err != nil {
		t.Error(err)
	}
	if in := cloudtest.Describe(t, d, ids[2]); in.State != driver.InstanceRunning {
		t.Errorf("%+v", in)
	}
}

// Many instances are destroyed by one call, and those that remain one by one.
func TestTerminateMany(t *testing.T) {
	t.Parallel()
	rows := make([]row, bulkFrom)
	f := startFake(t, rows...)
	f.noMachines = true
	d := prepared(t, f)
	var ids []string
	for i := range rows {
		ids = append(ids, mustLaunch(t, d, gputrain.Spec{}, i).ID)
	}
	f.Inject(fakecloud.Fault{Op: opBulk, Answer: fakecloud.Failure(200, row{"success": true}, "")}) // the answer is false
	for range 2 {
		if err := d.Terminate(t.Context(), ids...); err != nil {
			t.Error(err)
		}
	}
	if live := f.live(); len(live) != 1 || len(f.Records(opBulk)) != 1 || len(f.Records(opDestroy)) != len(ids) {
		t.Errorf("left: %v, after %d and %d calls", live, len(f.Records(opBulk)), len(f.Records(opDestroy)))
	}
	found, err := d.Describe(t.Context(), ids...)
	if err != nil || slices.ContainsFunc(found, func(in driver.Instance) bool { return in.State != driver.InstanceTerminated }) {
		t.Errorf("%+v, %v", found, err)
	}
}

// A destroy whose answer is lost is repeated: it has the same effect.
func TestTerminateIsRepeated(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.noMachines = true
	d := prepared(t, f)
	id := mustLaunch(t, d, gputrain.Spec{}, 0).ID
	f.Inject(fakecloud.Fault{Op: opDestroy, After: true, Cut: true})
	if err := d.Terminate(t.Context(), id); err != nil {
		t.Error(err)
	}
	if live := f.live(); len(live) != 1 {
		t.Errorf("left: %v", live)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Terminate(ctx, id); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
