//go:build unix

package gputrain_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/ssh"
)

func TestTasksRunOnTheirRank(t *testing.T) {
	pool := open(t, gputrain.Spec{Nodes: 3})
	var tasks []gputrain.Task
	for i := range 12 {
		task := gputrain.Script("echo $GPUTRAIN_NODE_RANK of $GPUTRAIN_NODES")
		task.Target = gputrain.OnRank(i % 3)
		tasks = append(tasks, task)
	}
	call := where.Call(struct{}{})
	call.Target = gputrain.OnRank(2)
	results, err := pool.Gather(append(tasks, call)...)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results[:12] {
		if want := string(rune('0'+i%3)) + " of 1\n"; string(r.Stdout) != want || r.Node.Rank != i%3 {
			t.Errorf("task %d on rank %d said %q", i, r.Node.Rank, r.Stdout)
		}
	}
	if in, err := where.Value(results[12]); err != nil || in.NodeRank != 2 || in.Nodes != 1 {
		t.Errorf("the call ran on %+v, %v", in, err)
	}
}

func TestTasksRunWhereTheirLabelsAre(t *testing.T) {
	var cfg ssh.Config
	for _, zone := range []string{"a", "b", "a"} {
		h := newHost(t).host()
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
		t.Errorf("the broadcast to zone a came back as %v, %v", results, err)
	}
}

func TestImpossibleTargetsAreRefusedAtOnce(t *testing.T) {
	pool := open(t, gputrain.Spec{Nodes: 2})
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
			t.Errorf("%v: gather said %v and has %d results", tt.target, err, len(results))
		}
		if _, err := pool.Broadcast(bad); !errors.Is(err, gputrain.ErrInvalid) {
			t.Errorf("%v: broadcast said %v", tt.target, err)
		}
		if _, err := pool.Start(bad).Wait(); !errors.Is(err, gputrain.ErrInvalid) {
			t.Errorf("%v: start said %v", tt.target, err)
		}
	}
}

// A task that waits for a slot of its rank ends with the rank's node; so does
// one that is asked for later. Others go on elsewhere.
func targetsOfALostNodeFail(t *testing.T) {
	hosts := []*ownHost{newHost(t), newHost(t)}
	cfg := ssh.Config{Hosts: []ssh.Host{hosts[0].host(), hosts[1].host()}}
	cfg.Hosts[1].Labels = map[string]string{"zone": "b"}
	pool, err := gputrain.Open(t.Context(), cfg, gputrain.Spec{Nodes: 2, MaxReplacements: -1, Lease: 2 * gputrain.MinLease})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	running := gputrain.Script("sleep 600")
	byRank, byLabel := gputrain.Script("true"), gputrain.Script("true")
	running.Target, byRank.Target = gputrain.OnRank(1), gputrain.OnRank(1)
	byLabel.Target = gputrain.OnLabels(map[string]string{"zone": "b"})
	started := filepath.Join(t.TempDir(), "started")
	running.Script = "echo x > '" + started + "'; sleep 600"
	var jobs []*gputrain.Job
	for _, task := range []gputrain.Task{running, byRank, byLabel} {
		jobs = append(jobs, pool.Start(task))
		until(t, "the task", func() bool { return exists(started) })
	}
	hosts[1].srv.NewHostKey() // another machine answers now: the node is given up
	hosts[1].srv.Kill()
	hosts[1].srv.Resume()
	for i, job := range jobs {
		if _, err := job.Wait(); !errors.Is(err, gputrain.ErrNodeLost) {
			t.Errorf("job %d ended with %v", i, err)
		}
	}
	for _, task := range []gputrain.Task{byRank, byLabel} {
		if _, err := pool.Run(task); !errors.Is(err, gputrain.ErrNodeLost) {
			t.Errorf("the only node with %v is lost; the task ended with %v", task.Target, err)
		}
		if _, err := pool.Broadcast(task); !errors.Is(err, gputrain.ErrNodeLost) || !strings.Contains(err.Error(), task.Target.String()) {
			t.Errorf("the only node with %v is lost; the broadcast ended with %v", task.Target, err)
		}
	}
	if _, err := pool.Run(gputrain.Script("true")); err != nil {
		t.Errorf("rank 0 is there: %v", err)
	}
}
