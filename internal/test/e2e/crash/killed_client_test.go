//go:build unix

package crash

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/sidebyside"
	"github.com/gputrain/gputrain/providers/ssh"
)

func init() {
	victimWork["stubborn"] = func(pool *gputrain.Compute, _ victim) {
		for range 2 {
			pool.Start(gputrain.Script(`trap '' TERM; setsid sleep 600 & sleep 600; sleep 600`))
		}
		for range 2 {
			pool.Start(e2etest.Hang.Call(struct{}{}))
		}
		select {}
	}
}

// TestClientThatIsKilled kills a program with SIGKILL while its pool works. When the lease runs
// out, its nodes end everything by themselves. If the lease is longer, Reap ends it at once. Reap
// also removes the ledger.
func TestClientThatIsKilled(t *testing.T) {
	nothingRuns := func(id string) bool { return len(e2etest.ProcessesWith("GPUTRAIN_POOL="+id)) == 0 }
	sidebyside.Run(t, 4, []sidebyside.Test{
		{Name: "local", Run: func(t *testing.T) {
			v := victim{Local: t.TempDir()}
			id := v.killAtWork(t, 10*time.Second)
			e2etest.Until(t, "the end of the pool", func() bool { return nothingRuns(id) && len(e2etest.Tree(v.Local)) == 0 })
			v.reap(t)
		}},
		{Name: "local, reaped", Long: true, Run: func(t *testing.T) {
			v := victim{Local: t.TempDir()}
			id := v.killAtWork(t, time.Hour)
			v.reap(t)
			e2etest.Until(t, "the end of the pool", func() bool { return nothingRuns(id) && len(e2etest.Tree(v.Local)) == 0 })
		}},
		{Name: "own hosts", Long: true, Run: func(t *testing.T) {
			v := victim{Hosts: []ssh.Host{e2etest.NewHost(t).Host(), e2etest.NewHost(t).Host()}}
			id := v.killAtWork(t, 10*time.Second)
			e2etest.Until(t, "the end of the pool", func() bool { return nothingRuns(id) })
			v.reap(t)
		}},
		{Name: "own hosts, reaped", Run: func(t *testing.T) {
			a, b := e2etest.NewHost(t), e2etest.NewHost(t)
			v := victim{Hosts: []ssh.Host{a.Host(), b.Host()}}
			id := v.killAtWork(t, time.Hour)
			v.reap(t)
			e2etest.Until(t, "the end of the pool", func() bool { return nothingRuns(id) })
			a.WantAsFound(t)
			b.WantAsFound(t)
		}},
	})
}

// killAtWork starts a program, kills it once its tasks run, and returns its pool's ID.
func (v *victim) killAtWork(t *testing.T, lease time.Duration) string {
	t.Helper()
	v.State, v.Name, v.Work = t.TempDir(), "killed", "stubborn"
	v.Spec = gputrain.Spec{Nodes: 2, Concurrency: 2, Lease: lease}
	r := v.start(t)
	for range 4 {
		r.Await("task started")
	}
	r.Kill()
	id := poolID(t, v.State)
	e2etest.Until(t, "a process of the pool", func() bool { return len(e2etest.ProcessesWith("GPUTRAIN_POOL="+id)) > 0 })
	return id
}

// reap ends everything that a victim left behind.
func (v *victim) reap(t *testing.T) {
	t.Helper()
	if _, err := gputrain.StateDir(v.State).Reap(t.Context(), v.provider()); err != nil {
		t.Error(err)
	}
	wantNoPools(t, v.State)
}
