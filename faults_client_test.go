//go:build unix

package gputrain_test

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/ssh"
)

func init() {
	victimWork["stubborn"] = func(pool *gputrain.Compute, _ victim) {
		for range 2 {
			pool.Start(gputrain.Script(`trap '' TERM; setsid sleep 600 & sleep 600; sleep 600`))
		}
		for range 2 {
			pool.Start(hang.Call(struct{}{}))
		}
		select {}
	}
}

// clientThatIsKilled kills a program with SIGKILL while its pool works.
// Once the lease is over, its nodes have ended everything by themselves. Reap ends
// at once what a longer lease has left, and its ledger.
func clientThatIsKilled(t *testing.T) {
	nothingRuns := func(id string) bool { return len(processesWith("GPUTRAIN_POOL="+id)) == 0 }
	sideBySide(t, 4, []subtest{
		{"local", func(t *testing.T) {
			v := victim{Local: t.TempDir()}
			id := v.killAtWork(t, 2*gputrain.MinLease)
			until(t, "the end of the pool", func() bool { return nothingRuns(id) && len(tree(v.Local)) == 0 })
			v.reap(t)
		}},
		{"local, reaped", func(t *testing.T) {
			v := victim{Local: t.TempDir()}
			id := v.killAtWork(t, time.Hour)
			v.reap(t)
			until(t, "the end of the pool", func() bool { return nothingRuns(id) && len(tree(v.Local)) == 0 })
		}},
		{"own hosts", func(t *testing.T) {
			v := victim{Hosts: []ssh.Host{newHost(t).host(), newHost(t).host()}}
			id := v.killAtWork(t, 2*gputrain.MinLease)
			until(t, "the end of the pool", func() bool { return nothingRuns(id) })
			v.reap(t)
		}},
		{"own hosts, reaped", func(t *testing.T) {
			a, b := newHost(t), newHost(t)
			v := victim{Hosts: []ssh.Host{a.host(), b.host()}}
			id := v.killAtWork(t, time.Hour)
			v.reap(t)
			until(t, "the end of the pool", func() bool { return nothingRuns(id) })
			a.wantAsFound(t)
			b.wantAsFound(t)
		}},
	})
}

// killAtWork runs a program, kills it once its tasks run, and returns its pool's ID.
func (v *victim) killAtWork(t *testing.T, lease time.Duration) string {
	t.Helper()
	v.State, v.Name, v.Work = t.TempDir(), "killed", "stubborn"
	v.Spec = gputrain.Spec{Nodes: 2, Concurrency: 2, Lease: lease}
	r := v.start(t)
	for range 4 {
		r.await("task started")
	}
	r.kill()
	id := poolID(t, v.State)
	until(t, "a process of the pool", func() bool { return len(processesWith("GPUTRAIN_POOL="+id)) > 0 })
	return id
}

// reap ends what a victim has left, to the last file.
func (v *victim) reap(t *testing.T) {
	t.Helper()
	if _, err := gputrain.StateDir(v.State).Reap(t.Context(), v.provider()); err != nil {
		t.Error(err)
	}
	wantNoPools(t, v.State)
}
