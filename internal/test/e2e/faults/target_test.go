//go:build unix

package faults

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/ssh"
)

// A task that waits for a slot of its rank fails when the rank's node is lost, and so does a later
// one. Other tasks run elsewhere.
func targetsOfALostNodeFail(t *testing.T) {
	hosts := []*e2etest.OwnHost{e2etest.NewHost(t), e2etest.NewHost(t)}
	cfg := ssh.Config{Hosts: []ssh.Host{hosts[0].Host(), hosts[1].Host()}}
	cfg.Hosts[1].Labels = map[string]string{"zone": "b"}
	pool, err := gputrain.Open(t.Context(), cfg, gputrain.Spec{Nodes: 2, MaxReplacements: -1, Lease: 10 * time.Second})
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
		e2etest.Until(t, "the task", func() bool { return e2etest.Exists(started) })
	}
	hosts[1].Server.NewHostKey() // another machine seems to answer: the node is lost
	hosts[1].Server.Kill()
	hosts[1].Server.Resume()
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
		t.Errorf("rank 0 still runs, but a task for it ended with %v", err)
	}
}
