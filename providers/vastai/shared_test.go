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
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// Whatever answers are lost, the pool's key is registered once and removed, and the
// user's own keys stay.
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
		for _, field := range []string{"key", "public_key"} { // the name in the documents, and in the service
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

// A key that was there before the pool is the user's, and is not removed.
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

// A key whose comment is lost is still found by its ID.
func TestReleaseGoesByWhatWasMade(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	var id string
	f.Do(func() { id = string(json.Number(rowID(f.putKey(nil, cloudtest.PoolKey)))) })
	pool := cloudtest.Info("p1")
	pool.Made = []driver.Resource{{Kind: "key", ID: id, Name: "gputrain-p1"}}
	if err := f.open().Release(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
}

// A key that Vast stores without its comment is still removed, by the ID on record.
func TestKeyWithoutItsComment(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.bareKeys = true
	var pool driver.PoolInfo
	pool = cloudtest.Info("p1").WithRecord(func(r driver.Resource) error { pool.Made = append(pool.Made, r); return nil })
	d := f.open()
	if err := errors.Join(d.Prepare(t.Context(), pool), d.Release(t.Context(), pool)); err != nil {
		t.Fatal(err)
	}
	if live := f.live(); len(live) != 0 || len(f.Records(opAddKey)) != 1 {
		t.Errorf("left: %v", live)
	}
}

func rowID(r row) json.Number { b, _ := json.Marshal(r["id"]); return json.Number(b) }

// An invalid pool is rejected before anything is made.
func TestPrepareRefuses(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open()
	for _, pool := range []driver.PoolInfo{{ID: "No", AuthorizedKey: cloudtest.PoolKey}, {ID: "p1"}, {ID: "p1", AuthorizedKey: cloudtest.PoolKey + "\n" + cloudtest.PoolKey}} {
		is(t, d.Prepare(t.Context(), pool), driver.ErrInvalid, "prepare")
	}
	is(t, d.Release(t.Context(), driver.PoolInfo{ID: "No"}), driver.ErrInvalid, "release")
	f.Inject(fakecloud.Fault{Op: opAddKey, Answer: fakecloud.Failure(200, row{"success": true}, "")}) // the answer is false
	if err := d.Prepare(t.Context(), cloudtest.Info("p1")); err == nil || !strings.Contains(err.Error(), "does not list it") {
		t.Errorf("%v", err)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("%v", live)
	}
}

func overlayed(c *Config) { c.UseOverlay = true }

// All nodes of a network are in the cheapest physical cluster that has enough machines,
// each on a machine of its own.
func TestOverlayTakesOneCluster(t *testing.T) {
	t.Parallel()
	f := startFake(t,
		row{"cluster_id": nil},
		row{"cluster_id": 41}, // the only machine of its cluster
		row{"cluster_id": 42, "machine_id": 1, "dph_base": 0.90}, // expensive
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
	all := cloudtest.Offers(t, d, spec.Query())
	if len(all) != 2 || all[0].ID != "1004" || all[1].ID != "1006" {
		t.Fatalf("%+v", all)
	}
	if n := len(cloudtest.Offers(t, d, driver.Query{Nodes: 1})); n != 9 {
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
	if all := cloudtest.Offers(t, d, spec.Query()); len(all) != 1 || all[0].ID != "1020" {
		t.Errorf("%+v", all)
	}
	// Vast removes a network's instances with it, so Release keeps a network in use.
	err = d.Release(t.Context(), cloudtest.Info("p1"))
	if err == nil || !strings.Contains(err.Error(), ids[0]) || len(f.Records(opDelNet)) != 0 {
		t.Errorf("%v", err)
	}
	if err := d.Terminate(t.Context(), ids...); err != nil {
		t.Error(err)
	}
	// Terminated instances free their machines for others.
	if n := len(cloudtest.Offers(t, d, spec.Query())); n != 3 {
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

// A program that takes over a pool replaces nodes in the cluster of the pool's network,
// on machines that are not in use.
func TestOverlayThatIsTakenUp(t *testing.T) {
	t.Parallel()
	f := startFake(t, row{"cluster_id": 42, "machine_id": 1}, row{"cluster_id": 42, "machine_id": 2})
	f.noMachines = true
	d := prepared(t, f, overlayed)
	spec := gputrain.Spec{Nodes: 2}
	var ids []string
	for i, o := range cloudtest.Offers(t, d, spec.Query()) {
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
	all := cloudtest.Offers(t, other, spec.Query())
	if len(all) != 1 || all[0].ID != "1013" {
		t.Fatalf("%+v", all)
	}
	if got, err := other.Launch(t.Context(), request(spec, all[0], 0)); err != nil || len(got) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if in := cloudtest.Describe(t, other, ids[0]); in.State != driver.InstanceRunning || in.Offer.InstanceType != "1x RTX 4090" {
		t.Errorf("%+v", in)
	}
}

// If no machines can join an overlay, all are rejected with the reasons: a pool never runs without its network.
func TestNoMachinesForAnOverlay(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil, row{"cluster_id": 42})
	gpus := driver.Query{Nodes: 2, Accelerator: accelerators.RTX4090()}
	private := gpus
	private.PrivateNetwork = true
	for name, tt := range map[string]struct {
		d *vastaiDriver
		q driver.Query
	}{"Config": {f.open(overlayed), gpus}, "Spec": {f.open(), private}} {
		said := strings.Join(cloudtest.Rejected(t, tt.d, tt.q), "\n")
		if got := cloudtest.Offers(t, tt.d, tt.q); len(got) != 0 || !strings.Contains(said, "is in no cluster, so it cannot be on an overlay network") || !strings.Contains(said, "is in a cluster with 1 free machines") {
			t.Errorf("%s: offers %+v; rejects %s", name, got, said)
		}
	}
	if n := len(cloudtest.Offers(t, f.open(), gpus)); n != 2 {
		t.Errorf("%d offers for nodes that need not reach each other", n)
	}
}

// A pool gets an overlay network if its spec asks for a private one, whatever Config says. Another program with its
// ledger finds the nodes' addresses there, lists the network, and removes it.
func TestOverlayByTheSpec(t *testing.T) {
	t.Parallel()
	f := startFake(t, row{"cluster_id": 42}, row{"cluster_id": 42, "machine_id": 2}, row{"cluster_id": 43, "dph_base": 0.1}, nil)
	f.noMachines = true
	d := prepared(t, f)
	if d.Capabilities().PrivateNetwork || d.Scripts(driver.Instance{ID: "1"}).FindAddress != "" {
		t.Error("a driver without a pool on a network has one")
	}
	spec := gputrain.Spec{Nodes: 2, Network: gputrain.NetworkPrivate}
	var recorded []driver.Resource
	var ids []string
	all := cloudtest.Offers(t, d, spec.Query())
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	for i, o := range all {
		if o.Capabilities == nil || !o.Capabilities.PrivateNetwork {
			t.Errorf("%+v", o)
		}
		req := request(spec, o, i)
		req.Pool = req.Pool.WithRecord(func(r driver.Resource) error {
			if r.Kind == "network" && r.ID == "" && len(f.Records(opAddNet)) > 0 {
				t.Error("the network was made before it was recorded")
			}
			recorded = append(recorded, r)
			return nil
		})
		got, err := d.Launch(t.Context(), req)
		ids = append(ids, cloudtest.One(t, got, err).ID)
	}
	if len(recorded) == 0 || len(f.Records(opAddNet)) != 1 || d.Scripts(driver.Instance{ID: ids[0]}).FindAddress == "" {
		t.Fatalf("recorded %+v; networks made: %d", recorded, len(f.Records(opAddNet)))
	}
	pool := cloudtest.Info("p1")
	pool.Made = recorded[:1] // as of a program that was killed before it knew the ID
	other := f.open()
	if err := other.Resume(t.Context(), pool, ids...); err != nil || other.Scripts(driver.Instance{ID: ids[0]}).FindAddress == "" {
		t.Errorf("%v", err)
	}
	listed, err := other.List(t.Context(), "p1")
	if err != nil || !slices.ContainsFunc(listed, func(r driver.Resource) bool { return r.Kind == "network" }) {
		t.Errorf("%+v, %v", listed, err)
	}
	if err := errors.Join(other.Terminate(t.Context(), ids...), other.Release(t.Context(), pool)); err != nil {
		t.Error(err)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
}

// Nothing is rented without the network. A network whose create answer is lost is found.
func TestOverlayThatCannotBeMade(t *testing.T) {
	t.Parallel()
	f := startFake(t, row{"cluster_id": 42}, row{"cluster_id": 42})
	f.noMachines = true
	d := prepared(t, f, overlayed)
	spec := gputrain.Spec{Nodes: 2}
	o := cloudtest.AllOffers(t, d, spec.Query())[0]
	f.Inject(fakecloud.Fault{Op: opAddNet, Answer: fakecloud.Failure(400, row{"success": false, "msg": "no"}, "")})
	_, err := d.Launch(t.Context(), request(spec, o, 0))
	is(t, err, driver.ErrNoCapacity, "launch")
	f.Inject(fakecloud.Fault{Op: opNets, Answer: fakecloud.Failure(403, "", "")})
	_, err = d.Launch(t.Context(), request(spec, o, 0))
	is(t, err, driver.ErrAuth, "launch") // the next offer would fail too
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
	f.Inject(fakecloud.Fault{Op: opAddNet, After: true, Cut: true}) // made, but the answer is lost
	got, err := d.Launch(t.Context(), request(spec, o, 0))
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if n := len(f.Records(opAddNet)); n != 3 {
		t.Errorf("%d networks were made", n)
	}
	// Another program with only the ledger removes the network, too, whatever its Config.
	pool := cloudtest.Info("p1")
	pool.Made = []driver.Resource{{Kind: "network", Name: "gputrain-p1"}}
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

// Reap, on another computer, ends all of a pool whose program is dead, by the data in
// its tags.
func TestReapFromElsewhere(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.Do(func() {
		at := pooltag.Tag{Pool: "dead", Name: "dead-0", Owner: "gone.00000000/1/2", Lease: 60e9}
		at.Created = at.Created.AddDate(2000, 0, 0)
		at.Until = at.Created
		f.instances.Put(nil, "77", &rental{row: row{"id": 77, "actual_status": "running", "label": labels.String(at), "dph_total": 1.5}})
		f.putKey(nil, cloudtest.PoolKey+" "+labels.String(at))
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
