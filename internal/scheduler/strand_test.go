package scheduler

import (
	"slices"
	"testing"
	"testing/synctest"
)

// Tasks that wait for nodes that will never come fail, with the reason. Tasks that may still run wait.
func TestSchedulerStrands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(t, 2, 1, false)
		began := make(chan *attempt, 10)
		var batches []*Batch
		add := func(target Target, pin *Node) *testWork {
			b := s.NewBatch(t.Context(), t.Context())
			batches = append(batches, b)
			w := newWork(b, 0, 0, target, began)
			w.PinTo(pin)
			b.Submit()
			return w
		}
		one, two := s.queues.nodes[0], s.queues.nodes[1]
		set(s, one, Away)
		set(s, two, Away)
		pinned, ranked, zoned, any := add(Target{}, one), add(OnRank(0), nil), add(OnLabels(map[string]string{"zone": "0"}), nil), add(Target{}, nil)
		set(s, one, Over)
		want(t, pinned, "stranded: "+errOver.Error())
		want(t, ranked, `stranded: rank 0: 0 ranks, 1 over, []`)
		want(t, zoned, `stranded: zone=0: 0 ranks, 1 over, []`)
		if any.IsOver() {
			t.Error("a task fails while a node may come back")
		}
		f.grows = true
		set(s, two, Over)
		if any.IsOver() {
			t.Error("a task fails while a node may come")
		}
		f.grows = false
		set(s, two, Over)
		want(t, any, "stranded: "+errNoNodes.Error())
		want(t, add(Target{}, two), "stranded: "+errOver.Error())
		for _, b := range batches {
			b.Close()
		}
	})
}

// Replacing a node strands the tasks pinned to it, and the new node gets the rest.
func TestSchedulerReplacesNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newTest(t, 1, 1, false)
		f.grows = true
		began := make(chan *attempt, 10)
		old := s.queues.nodes[0]
		b := s.NewBatch(t.Context(), t.Context())
		pinned, ranked := newWork(b, 0, 0, Target{}, began), newWork(b, 1, 0, OnRank(0), began)
		pinned.PinTo(old)
		set(s, old, Away)
		b.Submit()
		s.lock.Lock()
		old.host.(*testHost).state = Over
		s.Update(old)
		s.Strand(old)
		s.lock.Unlock()
		want(t, pinned, "stranded: "+errOver.Error())
		fresh := addNode(s, 1, 0)
		set(s, fresh, Open)
		if a := <-began; a.w != ranked || a.n != fresh {
			t.Error("the new node does not get the task of its rank")
		} else {
			a.end <- None
		}
		want(t, ranked, "done")
		b.Close()
	})
}

// The last node gets the rank of a removed node, and the tasks that wait for that rank.
func TestSchedulerRemovesNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTest(t, 3, 1, false)
		began := make(chan *attempt, 10)
		first, last := s.queues.nodes[0], s.queues.nodes[2]
		busy, works := submit(t, s, began, 1, 0, OnRank(0))
		a := <-began
		b, waits := submit(t, s, began, 1, 0, OnRank(0))
		s.lock.Lock()
		first.host.(*testHost).state = Over
		s.Update(first)
		s.Remove(first)
		s.lock.Unlock()
		next := <-began
		if next.n != last || last.rank != 0 || len(s.queues.nodes) != 2 {
			t.Errorf("rank %d of %d got it", next.n.rank, len(s.queues.nodes))
		}
		next.end <- None
		want(t, waits[0], "done")
		a.end <- None
		want(t, works[0], "done")
		busy.Close()
		b.Close()
	})
}

// A target that no node can ever have gets another reason than a target that a former node had.
func TestImpossible(t *testing.T) {
	zone := func(z string) Target { return OnLabels(map[string]string{"zone": z}) }
	for _, tt := range []struct {
		name    string
		target  Target
		states  []State // of nodes with the zones 0, 1, ...
		most    int
		grows   bool
		elastic bool
		want    string
	}{
		{"any", Target{}, nil, 0, false, false, ""},
		{"a rank", OnRank(1), []State{Over, Open}, 2, false, false, ""},
		{"a rank on its way", OnRank(1), []State{Open, Coming}, 2, false, false, ""},
		{"a rank that is over", OnRank(0), []State{Over, Open}, 2, false, false, "rank 0: 0 ranks, 1 over, []"},
		{"a rank beyond", OnRank(2), []State{Open, Open}, 2, true, false, "rank 2: 2 ranks, 0 over, []"},
		{"a rank to come", OnRank(2), []State{Open, Open}, 3, true, true, ""},
		{"a rank that could not be had", OnRank(2), []State{Open, Open}, 3, false, true, errNoNodes.Error()},
		{"labels", zone("1"), []State{Open, Away}, 2, false, false, ""},
		{"labels of a node that is over", zone("1"), []State{Open, Over}, 2, false, false, "zone=1: 0 ranks, 1 over, []"},
		{"labels of none", zone("5"), []State{Open, Open, Over}, 3, false, false, `zone=5: 0 ranks, 0 over, ["\"zone\" is 0 or 1 or 2"]`},
		{"labels of a node to come", zone("5"), []State{Open}, 2, true, true, ""},
		{"labels that could not be had", zone("5"), []State{Open}, 2, false, true, errNoNodes.Error()},
		{"an unknown label", OnLabels(map[string]string{"rack": "1"}), []State{Open}, 1, false, false, `rack=1: 0 ranks, 0 over, ["no node has a label \"rack\""]`},
		{"an unknown label of a node on its way", OnLabels(map[string]string{"rack": "1"}), []State{Open, Coming}, 2, false, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, f := newTest(t, len(tt.states), 1, tt.elastic)
			f.most = tt.most
			for i, state := range tt.states {
				set(s, s.queues.nodes[i], state)
			}
			f.grows = tt.grows
			s.lock.Lock()
			defer s.lock.Unlock()
			if err := s.Impossible(tt.target, 0); (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
				t.Errorf("%v, not %q", err, tt.want)
			}
		})
	}
}

func TestAllowed(t *testing.T) {
	s, _ := newTest(t, 4, 1, false)
	set(s, s.queues.nodes[3], Coming)
	s.queues.nodes[3].host.(*testHost).labels = nil
	set(s, s.queues.nodes[3], Coming)
	zone := OnLabels(map[string]string{"zone": "0"})
	if got := s.Allowed(zone, false); !slices.Equal(got, s.queues.nodes[:1]) {
		t.Errorf("%d are allowed now", len(got))
	}
	if got := s.Allowed(zone, true); len(got) != 2 || got[1].rank != 3 {
		t.Errorf("%d are allowed now or later", len(got))
	}
}

func TestTargetString(t *testing.T) {
	for want, target := range map[string]Target{
		"any node": {}, "rank 3": OnRank(3), "rank -1": OnRank(-5), "arch=arm64, zone=a": OnLabels(map[string]string{"zone": "a", "arch": "arm64"}),
	} {
		if target.String() != want || target.IsAny() != (want == "any node") || !target.Equal(target) {
			t.Errorf("%v is %q", target, want)
		}
	}
	if rank, by := OnRank(0).Rank(); rank != 0 || !by {
		t.Errorf("rank %d, %t", rank, by)
	}
	if rank, by := OnRank(-2).Rank(); rank != -1 || !by {
		t.Errorf("rank %d, %t", rank, by)
	}
}
