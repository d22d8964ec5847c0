package recovery

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

// An Attach whose context ends before a node can be reached returns, although some tasks wait for that node. The next
// Attach runs these.
func TestAttachThatFails(t *testing.T) {
	m := newMarket(t, "127.0.0.1")
	m.edit = func(caps *driver.Capabilities) { caps.LocalAddresses = true }
	var starting atomic.Bool
	m.change = func(in *driver.Instance) {
		if starting.Load() {
			in.State = driver.InstancePending
		}
	}
	state := gputrain.WithStateDir(t.TempDir())
	older, err := gputrain.Open(t.Context(), m, gputrain.Spec{}, state, gputrain.WithName("late"))
	if err != nil {
		t.Fatal(err)
	}
	defer older.Close()
	older.Start(gputrain.Script("sleep 600")) // takes the only slot
	waits := older.Start(gputrain.Cmd("echo", "here"))

	starting.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := gputrain.Attach(ctx, m, "late", state, gputrain.WithTakeover()); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	starting.Store(false)
	pool, err := gputrain.Attach(t.Context(), m, "late", state, gputrain.WithTakeover())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var found *gputrain.Job
	for _, j := range pool.Jobs() {
		if j.ID() == waits.ID() {
			found = j
		} else {
			j.Cancel()
		}
	}
	if found == nil {
		t.Fatal("the next Attach does not find the task")
	}
	if r, err := found.Wait(); err != nil || string(r.Stdout) != "here\n" {
		t.Errorf("%q, %v", r.Stdout, err)
	}
}
