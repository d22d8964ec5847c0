//go:build unix

package hosts

import (
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/ssh"
)

func TestTasksRunOnTheirRank(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 3})
	var tasks []gputrain.Task
	for i := range 12 {
		task := gputrain.Script("echo $GPUTRAIN_NODE_RANK of $GPUTRAIN_NODES")
		task.Target = gputrain.OnRank(i % 3)
		tasks = append(tasks, task)
	}
	call := e2etest.Where.Call(struct{}{})
	call.Target = gputrain.OnRank(2)
	results, err := pool.Gather(append(tasks, call)...)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results[:12] {
		if want := string(rune('0'+i%3)) + " of 1\n"; string(r.Stdout) != want || r.Node.Rank != i%3 {
			t.Errorf("task %d on rank %d printed %q", i, r.Node.Rank, r.Stdout)
		}
	}
	if in, err := e2etest.Where.Value(results[12]); err != nil || in.NodeRank != 2 || in.Nodes != 1 {
		t.Errorf("the call ran on %+v, %v", in, err)
	}
}

func TestTasksRunWhereTheirLabelsAre(t *testing.T) {
	var cfg ssh.Config
	for _, zone := range []string{"a", "b", "a"} {
		h := e2etest.NewHost(t).Host()
		h.Labels = map[string]string{"zone": zone, gputrain.LabelRegion: "home"}
		cfg.Hosts = append(cfg.Hosts, h)
	}
	pool, err := gputrain.Open(t.Context(), cfg, gputrain.Spec{Nodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, n := range pool.Nodes() {
		l := n.Labels()
		if l["zone"] == "" || l[gputrain.LabelRegion] != "home" || l[gputrain.LabelProvider] != "ssh" || l[gputrain.LabelOS] != n.OS ||
			l[gputrain.LabelMarket] != "on-demand" {
			t.Errorf("rank %d is labelled %v", n.Rank, l)
		}
		l["zone"] = "mine" // a copy
	}
	var tasks []gputrain.Task
	for i := range 20 {
		task := gputrain.Script("sleep 0.05; echo $GPUTRAIN_NODE_RANK")
		task.Target = gputrain.OnLabels(map[string]string{"zone": "b"})
		if i%2 == 0 {
			task.Target = gputrain.OnLabels(map[string]string{"zone": "a", "region": "home"})
		}
		tasks = append(tasks, task)
	}
	results, err := pool.Gather(tasks...)
	if err != nil {
		t.Fatal(err)
	}
	used := map[int]bool{}
	for i, r := range results {
		used[r.Node.Rank] = true
		if (i%2 == 0) == (r.Node.Rank == 1) {
			t.Errorf("task %d, for %v, ran on rank %d", i, tasks[i].Target, r.Node.Rank)
		}
	}
	if len(used) != 3 {
		t.Errorf("only ranks %v were used", used)
	}

	everywhere := gputrain.Script("echo $GPUTRAIN_RANK of $GPUTRAIN_NODES on $GPUTRAIN_NODE_RANK")
	everywhere.Target = gputrain.OnLabels(map[string]string{"zone": "a"})
	results, err = pool.Broadcast(everywhere)
	if err != nil || len(results) != 2 || string(results[0].Stdout) != "0 of 2 on 0\n" || string(results[1].Stdout) != "1 of 2 on 2\n" {
		t.Errorf("the broadcast to zone a returned %v, %v", results, err)
	}
}

func TestImpossibleTargetsAreRefusedAtOnce(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	for _, tt := range []struct {
		target gputrain.Target
		want   string
	}{
		{gputrain.OnRank(2), "there is no rank 2: the pool has ranks 0 to 1"},
		{gputrain.OnRank(-1), "negative rank"},
		{gputrain.OnLabels(map[string]string{"zone": "a"}), `no node has a label "zone"`},
		{gputrain.OnLabels(map[string]string{"provider": "acme"}), `"provider" is local`},
		{gputrain.OnLabels(map[string]string{"": "a"}), "without a name"},
	} {
		ok, bad := gputrain.Script("exit 3"), gputrain.Script("true")
		bad.Target = tt.target
		results, err := pool.Gather(ok, bad)
		if !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), tt.want) || results != nil {
			t.Errorf("%v: Gather returned %v and %d results", tt.target, err, len(results))
		}
		if _, err := pool.Broadcast(bad); !errors.Is(err, gputrain.ErrInvalid) {
			t.Errorf("%v: Broadcast returned %v", tt.target, err)
		}
		if _, err := pool.Start(bad).Wait(); !errors.Is(err, gputrain.ErrInvalid) {
			t.Errorf("%v: Start returned %v", tt.target, err)
		}
	}
}
