//go:build unix

package runpod

import (
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

var clusterSpec = gputrain.Spec{Accelerator: accelerators.H100(), Nodes: 2}

func instant(f *fake) Config {
	cfg := f.config()
	cfg.ClusterMode = Instant
	return cfg
}

// An instant cluster works from Open to Close, and each member has the host key of its rank.
func TestClusterPool(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	pool, err := gputrain.Open(t.Context(), instant(f), clusterSpec, gputrain.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range pool.Nodes() {
		if !strings.HasPrefix(n.PrivateAddr, "10.65.0.") {
			t.Errorf("%+v", n)
		}
	}
	cloudtest.Use(t, pool)
	if cost := pool.Cost(); cost.Bounded || cost.USD <= 0 {
		t.Errorf("members do not end themselves: %+v", cost)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if live := f.live(); len(live) > 0 {
		t.Errorf("left: %v", live)
	}
}

func TestClusterLaunch(t *testing.T) {
	f := startFake(t)
	for name, fault := range map[string]fakecloud.Fault{"": {Times: 0, Op: "none"}, "cut": {Op: opCluster, After: true, Cut: true}, "error": {Op: opCluster, After: true, Answer: fakecloud.Failure(503, "", "")}} {
		f.Inject(fault)
		d := open(t, instant(f))
		req := request(t, d, clusterSpec, 2)
		got, err := d.Launch(t.Context(), req)
		if err != nil || len(got) != 2 || len(f.live()) != 3 {
			t.Fatalf("%s: %v, %v, %v", name, got, err, f.live())
		}
		if in := sent(t, f, opCluster); in["name"] != "gputrain-pool-a1b2c3d4-0-cluster" || in["type"] != "TRAINING" || in["mounts"] != nil {
			t.Errorf("%v", in)
		}
		other := open(t, instant(f))
		ids := []string{got[0].ID, got[1].ID}
		described, err := other.Describe(t.Context(), ids...)
		if err != nil {
			t.Fatal(err)
		}
		for rank, in := range described {
			if in.Name != req.Nodes[rank].Name || in.Rank != rank || in.SSH.HostKeys[0] != req.Nodes[rank].HostKey.Public || in.State != driver.InstanceRunning || in.Offer.ID != req.Offer.ID {
				t.Errorf("%+v", in)
			}
			if text := open(t, f.config()).(driver.Scripter).Scripts(in).SelfDestruct; text != "" {
				t.Errorf("a member that ends itself: %q", text)
			}
		}
		list, err := other.List(t.Context(), req.Pool.ID)
		if err != nil || len(list) != 2 || list[0].Name == list[1].Name {
			t.Errorf("%+v, %v", list, err)
		}
		wantKind(t, "one member", other.Terminate(t.Context(), ids[0]), driver.ErrUnsupported, ids[1]+" are to stay")
		f.Inject(faultAnswer("GET /v2/clusters/{id}/pods", 1, 200, `{"pods":[]}`))
		wantKind(t, "one member of none", other.Terminate(t.Context(), ids[0]), driver.ErrUnavailable, "lack its member "+ids[0])
		if live := f.live(); len(live) != 3 {
			t.Errorf("a cluster whose pods are not told has ended: %v", live)
		}
		for range 2 {
			if err := other.Terminate(t.Context(), ids...); err != nil {
				t.Error(err)
			}
		}
		if live := f.live(); len(live) > 0 {
			t.Errorf("left: %v", live)
		}
	}
}

func TestClusterRefused(t *testing.T) {
	f := startFake(t)
	d := open(t, instant(f))
	_, err := d.Launch(t.Context(), request(t, d, clusterSpec, 1))
	wantKind(t, "one node", err, driver.ErrUnsupported, "from 2")
	f.Do(func() { f.room = 1 })
	_, err = d.Launch(t.Context(), request(t, d, clusterSpec, 2))
	wantKind(t, "no room", err, driver.ErrNoCapacity)
	if live := f.live(); len(live) > 0 {
		t.Error(live)
	}
}

// If a cluster's members are not reported, the launch removes the cluster. If the
// program died first, another program finds it in the list.
func TestClusterWithoutMembers(t *testing.T) {
	f := startFake(t)
	f.Do(func() { f.unranked = true })
	d := open(t, instant(f))
	f.Inject(faultAnswer("GET /v2/clusters/{id}/pods", 1, 403, `{"title":"Forbidden","status":403,"detail":"access denied"}`))
	undeleted := f.Inject(faultAnswer("DELETE /v2/clusters/{id}", 1, 403, `{"title":"Forbidden","status":403,"detail":"access denied"}`))
	req := request(t, d, clusterSpec, 2)
	_, err := d.Launch(t.Context(), req)
	wantKind(t, "not ended", err, driver.ErrUnavailable, "ending cluster")
	if undeleted.Hits() != 1 || errors.Is(err, driver.ErrAuth) {
		t.Fatalf("the error means that nothing was made, but the cluster exists: %v", err)
	}
	list, err := d.List(t.Context(), "")
	if err != nil || len(list) != 1 || list[0].Pool != req.Pool.ID || list[0].Kind != "machine" {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, want := range []driver.InstanceState{driver.InstancePending, driver.InstanceTerminated} {
		if got, err := d.Describe(t.Context(), list[0].ID); err != nil || got[0].State != want {
			t.Errorf("%+v, %v", got, err)
		}
		if err := d.Terminate(t.Context(), list[0].ID); err != nil {
			t.Error(err)
		}
	}
	f.Inject(faultAnswer("GET /v2/clusters/{id}/pods", 1, 403, `{"title":"Forbidden","status":403,"detail":"access denied"}`))
	_, err = d.Launch(t.Context(), req)
	wantKind(t, "told nothing", err, driver.ErrAuth)
	if live := f.live(); len(live) > 0 {
		t.Errorf("left: %v", live)
	}
}
