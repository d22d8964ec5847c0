package vastai

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// The pool's key is registered once, whatever becomes of the answers, and removed; the
// user's own stay.
func TestKeysAreThePoolsAlone(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]*fakecloud.Fault{
		"no fault":                nil,
		"cut after the effect":    {Op: opAddKey, Cut: true, After: true},
		"502 after the effect":    {Op: opAddKey, Answer: fakecloud.Failure(502, "", ""), After: true},
		"429":                     {Op: opAddKey, Answer: fakecloud.Failure(429, "threshold=0.1", "")},
		"list fails once":         {Op: opKeys, Answer: fakecloud.Failure(500, "", "")},
		"said to be a duplicate":  {Op: opAddKey, Answer: fakecloud.Failure(200, row{"success": false, "error": "duplicate"}, ""), After: true},
		"success is not told":     {Op: opAddKey, Answer: fakecloud.Failure(200, row{"key": row{"id": 1}}, ""), After: true},
		"removed, answer is lost": {Op: opDelKey, Cut: true, After: true},
	} {
		for _, field := range []string{"key", "public_key"} { // the documents' name, and the service's
			t.Run(name+", "+field, func(t *testing.T) {
				t.Parallel()
				f := startFake(t)
				f.keyField = field
				f.Do(func() { f.putKey(nil, "ssh-ed25519 AAAAother me@home"); f.putKey(nil, "ssh-rsa odd") })
				d := f.open()
				if fault != nil {
					f.Inject(*fault)
				}
				for range 2 {
					if err := d.Prepare(t.Context(), cloudtest.Info("p1")); err != nil {
						t.Fatal(err)
					}
				}
				listed, err := d.List(t.Context(), "p1")
				if err != nil || len(listed) != 1 || listed[0].Kind != "key" || listed[0].Name != "gputrain-p1" || listed[0].Pool != "p1" || listed[0].Owner != cloudtest.Info("p1").Owner || listed[0].Created.IsZero() {
					t.Errorf("%+v, %v", listed, err)
				}
				if err := d.Prepare(t.Context(), cloudtest.Info("p10")); err != nil { // another pool with the same key
					t.Fatal(err)
				}
				for range 2 {
					if err := d.Release(t.Context(), cloudtest.Info("p1")); err != nil {
						t.Fatal(err)
					}
				}
				if live := f.live(); len(live) != 2 || !slices.Contains(live, "key ssh-ed25519 AAAAother me@home") {
					t.Errorf("left: %v", live)
				}
			})
		}
	}
}

// A key that was there before is the user's, and is not removed.
func TestKeyThatWasThereStays(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Do(func() { f.putKey(nil, cloudtest.PoolKey+" me@home") })
	d := prepared(t, f)
	if err := d.Release(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Fatal(err)
	}
	if live := f.live(); len(live) != 1 || len(f.Records(opAddKey)) != 0 {
		t.Errorf("%v", live)
	}
}

// Whoever has lost his comments still has his IDs.
func TestReleaseGoesByWhatWasMade(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	var id string
	f.Do(func() { id = string(json.Number(rowID(f.putKey(nil, cloudtest.PoolKey)))) })
	pool := cloudtest.Info("p1")
	pool.Made = []gputrain.Resource{{Kind: "key", ID: id, Name: "gputrain-p1"}}
	if err := f.open().Release(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
}

// So has a pool whose key has lost its comment on the way.
func TestKeyWithoutItsComment(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.bareKeys = true
	var pool gputrain.PoolInfo
	pool = cloudtest.Info("p1").WithRecord(func(r gputrain.Resource) error { pool.Made = append(pool.Made, r); return nil })
	d := f.open()
	if err := errors.Join(d.Prepare(t.Context(), pool), d.Release(t.Context(), pool)); err != nil {
		t.Fatal(err)
	}
	if live := f.live(); len(live) != 0 || len(f.Records(opAddKey)) != 1 {
		t.Errorf("left: %v", live)
	}
}

func rowID(r row) json.Number { b, _ := json.Marshal(r["id"]); return json.Number(b) }

// Pools that make no sense are refused before anything is made.
func TestPrepareRefuses(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open()
	for _, pool := range []gputrain.PoolInfo{{ID: "No", AuthorizedKey: cloudtest.PoolKey}, {ID: "p1"}, {ID: "p1", AuthorizedKey: cloudtest.PoolKey + "\n" + cloudtest.PoolKey}} {
		is(t, d.Prepare(t.Context(), pool), gputrain.ErrInvalid, "prepare")
	}
	is(t, d.Release(t.Context(), gputrain.PoolInfo{ID: "No"}), gputrain.ErrInvalid, "release")
	f.Inject(fakecloud.Fault{Op: opAddKey, Answer: fakecloud.Failure(200, row{"success": true}, "")}) // which is not true
	if err := d.Prepare(t.Context(), cloudtest.Info("p1")); err == nil || !strings.Contains(err.Error(), "does not list it") {
		t.Errorf("%v", err)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("%v", live)
	}
}

func overlayed(c *Config) { c.UseOverlay = true }

// All nodes of a network are in one physical cluster, on different machines: the cheapest
// cluster that has enough.
func TestOverlayTakesOneCluster(t *testing.T) {
	t.Parallel()
	f := startFake(t,
		row{"cluster_id": nil},
		row{"cluster_id": 41}, // alone
		row{"cluster_id": 42, "machine_id": 1, "dph_base": 0.90}, // dear
		row{"cluster_id": 42, "machine_id": 2, "dph_base": 0.90},
		row{"cluster_id": 43, "machine_id": 3},
		row{"cluster_id": 43, "machine_id": 3}, // the same machine
		row{"cluster_id": 43, "machine_id": 4},
		row{"cluster_id": 44, "machine_id": 5, "dph_base": 0.1},
		row{"cluster_id": 44, "machine_id": 5, "dph_base": 0.1},
	)
	f.noMachines = true
	d := prepared(t, f, overlayed)
	spec := gputrain.Spec{Nodes: 2}
	all := cloudtest.Offers(t, d, spec)
	if len(all) != 2 || all[0].ID != "1004" || all[1].ID != "1006" {
		t.Fatalf("%+v", all)
	}
	if n := len(cloudtest.Offers(t, d, gputrain.Spec{Nodes: 1})); n != 9 {
		t.Errorf("%d offers for a node alone", n)
	}
	var ids []string
	for i, o := range all {
		got, err := d.Launch(t.Context(), request(spec, o, i))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, got[0].ID)
	}
	for _, r := range f.Records(opCreate) {
		if !strings.Contains(r.Body, `"env":{"-n gputrain-p1":"1"}`) {
			t.Errorf("%s", r.Body)
		}
	}
	if nets := f.Records(opAddNet); len(nets) != 1 || !strings.Contains(nets[0].Body, `"cluster_id":43`) {
		t.Errorf("%+v", nets)
	}
	listed, err := d.List(t.Context(), "p1")
	if err != nil || len(listed) != 4 || listed[3].Kind != "network" || listed[3].Name != "gputrain-p1" || listed[3].Pool != "p1" {
		t.Errorf("%+v, %v", listed, err)
	}
	// A replacement comes from the same cluster, on a machine that is not in use.
	f.Do(func() { f.asks = append(f.asks, askRow(20, row{"cluster_id": 43, "machine_id": 9, "dph_base": 3.0})) })
	if all := cloudtest.Offers(t, d, spec); len(all) != 1 || all[0].ID != "1020" {
		t.Errorf("%+v", all)
	}
	// The API ends what is in a network with it.
	err = d.Release(t.Context(), cloudtest.Info("p1"))
	if err == nil || !strings.Contains(err.Error(), ids[0]) || len(f.Records(opDelNet)) != 0 {
		t.Errorf("%v", err)
	}
	if err := d.Terminate(t.Context(), ids...); err != nil {
		t.Error(err)
	}
	// What is gone has left its machine free for another.
	if n := len(cloudtest.Offers(t, d, spec)); n != 3 {
		t.Errorf("%d offers in the cluster", n)
	}
	for range 2 {
		if err := d.Release(t.Context(), cloudtest.Info("p1")); err != nil {
			t.Error(err)
		}
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
}

// Who takes up a pool replaces its nodes from the cluster that its network is in, on
// machines that are not in use.
func TestOverlayThatIsTakenUp(t *testing.T) {
	t.Parallel()
	f := startFake(t, row{"cluster_id": 42, "machine_id": 1}, row{"cluster_id": 42, "machine_id": 2})
	f.noMachines = true
	d := prepared(t, f, overlayed)
	spec := gputrain.Spec{Nodes: 2}
	var ids []string
	for i, o := range cloudtest.Offers(t, d, spec) {
		got, err := d.Launch(t.Context(), request(spec, o, i))
		ids = append(ids, cloudtest.One(t, got, err).ID)
	}
	f.Do(func() {
		f.asks = append(f.asks, askRow(10, row{"cluster_id": 43, "machine_id": 3}), askRow(11, row{"cluster_id": 43, "machine_id": 4}),
			askRow(12, row{"cluster_id": 42, "machine_id": 2}), askRow(13, row{"cluster_id": 42, "machine_id": 5}))
	})
	other := f.open(overlayed)
	if err := other.MarkLease(t.Context(), cloudtest.Info("p1"), time.Now().Add(time.Minute), ids...); err != nil {
		t.Fatal(err)
	}
	all := cloudtest.Offers(t, other, spec)
	if len(all) != 1 || all[0].ID != "1013" {
		t.Fatalf("%+v", all)
	}
	if got, err := other.Launch(t.Context(), request(spec, all[0], 0)); err != nil || len(got) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if in := cloudtest.Describe(t, other, ids[0]); in.State != gputrain.InstanceRunning || in.Offer.InstanceType != "1x RTX 4090" {
		t.Errorf("%+v", in)
	}
}

// Without machines that can do it there is no quiet going on without a network.
func TestOverlayThatNobodyHasFailsClearly(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil, row{"cluster_id": 42})
	d := f.open(overlayed)
	for o, err := range d.Offers(t.Context(), gputrain.Spec{Nodes: 2}) {
		is(t, err, gputrain.ErrNoOffers, "offers")
		if !strings.Contains(err.Error(), "UseOverlay") {
			t.Errorf("%+v, %v", o, err)
		}
	}
}

// A network is recorded before it is made, and nothing is rented without it.
func TestOverlayThatCannotBeMade(t *testing.T) {
	t.Parallel()
	f := startFake(t, row{"cluster_id": 42}, row{"cluster_id": 42})
	f.noMachines = true
	d := prepared(t, f, overlayed)
	spec := gputrain.Spec{Nodes: 2}
	o := cloudtest.Offers(t, d, spec)[0]
	f.Inject(fakecloud.Fault{Op: opAddNet, Answer: fakecloud.Failure(400, row{"success": false, "msg": "no"}, "")})
	_, err := d.Launch(t.Context(), request(spec, o, 0))
	is(t, err, gputrain.ErrNoCapacity, "launch")
	f.Inject(fakecloud.Fault{Op: opNets, Answer: fakecloud.Failure(403, "", "")})
	_, err = d.Launch(t.Context(), request(spec, o, 0))
	is(t, err, gputrain.ErrAuth, "launch") // for the next offer, too
	hold := make(chan struct{})
	hang := f.Inject(fakecloud.Fault{Op: opAddNet, Hold: hold, Cut: true})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-hang.Reached(); cancel() }()
	_, err = d.Launch(ctx, request(spec, o, 0))
	close(hold)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if n := len(f.Records(opCreate)); n != 0 {
		t.Errorf("%d creates", n)
	}
	f.Inject(fakecloud.Fault{Op: opAddNet, After: true, Cut: true}) // made, though nobody says so
	got, err := d.Launch(t.Context(), request(spec, o, 0))
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if n := len(f.Records(opAddNet)); n != 3 {
		t.Errorf("%d networks were made", n)
	}
	// Another program that has only the ledger removes it, too, whatever its Config.
	pool := cloudtest.Info("p1")
	pool.Made = []gputrain.Resource{{Kind: "network", Name: "gputrain-p1"}}
	other := f.open()
	if err := other.Release(t.Context(), pool); err == nil || len(f.live()) != 2 {
		t.Errorf("%v; left: %v", err, f.live())
	}
	if err := errors.Join(other.Terminate(t.Context(), got[0].ID), other.Release(t.Context(), pool)); err != nil {
		t.Error(err)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
}

// Reap, from another computer, ends all of a pool whose program is dead: by what is in
// the tags.
func TestReapFromElsewhere(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.Do(func() {
		at := tag{pool: "dead", name: "dead-0", owner: "gone.00000000/1/2", lease: 60e9}
		at.created = at.created.AddDate(2000, 0, 0)
		at.until = at.created
		f.instances.Put(nil, "77", &rental{row: row{"id": 77, "actual_status": "running", "label": at.String(), "dph_total": 1.5}})
		f.putKey(nil, cloudtest.PoolKey+" "+at.String())
		f.networks.Put(nil, "5", row{"overlay_id": 5, "name": "gputrain-dead", "cluster_id": 42, "instance_count": 0})
		f.putKey(nil, "ssh-ed25519 AAAAother me@home")
	})
	ended, err := gputrain.StateDir(t.TempDir()).Reap(t.Context(), f.config())
	if leak := (*gputrain.LeakError)(nil); errors.As(err, &leak) || err != nil {
		t.Fatal(err)
	}
	if len(ended) < 2 {
		t.Errorf("%+v", ended)
	}
	live := f.live()
	slices.Sort(live)
	if len(live) != 1 || live[0] != "key ssh-ed25519 AAAAother me@home" {
		t.Errorf("left: %v", live)
	}
}
