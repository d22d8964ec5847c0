//go:build unix

package simnode_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/internal/supervisor"
)

// shortLease is three of the watcher's intervals: a node that hears nothing ends after five.
const (
	shortLease = 3 * time.Second
	outlivesIt = 7
)

// marker returns a task that makes a file after so many seconds.
func marker(id, file string, seconds int) supervisor.Spec {
	return supervisor.Spec{
		ID: id, Scratch: true, Env: map[string]string{"MARK": file, "WAIT": strconv.Itoa(seconds)},
		Script: `sleep "$WAIT"; : >"$MARK"`,
	}
}

// mark is the task of marker on a simulated node.
func mark(ctx context.Context, c simnode.Command) int {
	seconds, _ := strconv.Atoi(getenv(c, "WAIT"))
	if code := wait(ctx, time.Duration(seconds)*time.Second); code != 0 {
		return code
	}
	file, now := getenv(c, "MARK"), time.Now() // which may be virtual
	if os.WriteFile(file, nil, 0o600) != nil || os.Chtimes(file, now, now) != nil {
		return 1
	}
	return 0
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// A node that hears nothing ends its tasks and itself, and a client that comes later learns that.
func TestLapse(t *testing.T) {
	exec := func(ctx context.Context, _ simnode.Command) int { return wait(ctx, 100*time.Second) }
	overTime(t, time.Second, exec, func(t *testing.T, r *rig) {
		ended := make(chan error, 1)
		go func() {
			_, err := r.node.Run(context.Background(), supervisor.Spec{ID: "sleep", Script: "exec sleep 100"}, supervisor.Sinks{Started: func() {
				r.client.off.Store(true)
				r.server.HangUp()
			}})
			ended <- err
		}()
		<-r.lapsed
		r.client.off.Store(false)
		if err := <-ended; !errors.Is(err, supervisor.ErrLapsed) {
			t.Errorf("the task: %v", err)
		}
	})
}

// A task that holds the lease keeps the node, without a client, until the task has ended. A whole
// lease begins then.
func TestHeldLease(t *testing.T) {
	overTime(t, shortLease, mark, func(t *testing.T, r *rig) {
		file := t.TempDir() + "/mark"
		held := marker("held", file, outlivesIt)
		held.HoldsLease = true
		launch(t, r.node, held)
		r.client.Close()
		<-r.lapsed
		over, err := os.Stat(file)
		if err != nil {
			t.Fatalf("the node has lapsed before its task was over: %v", err)
		}
		// A file's time is that of the last tick of the kernel's clock. In virtual time, a watcher
		// that waits forever also lapses, after a hundred years.
		if left := r.lapsedAt.Sub(over.ModTime()); left < shortLease-20*time.Millisecond || left > time.Hour {
			t.Errorf("the node has lapsed %v after its task, with a lease of %v", left, shortLease)
		}
	})
}

// Neither a task that does not hold the lease nor one that has ended keeps the node.
func TestLeaseWithoutHolder(t *testing.T) {
	overTime(t, shortLease, mark, func(t *testing.T, r *rig) {
		held, cancelled, file := marker("held", t.TempDir()+"/held", 0), marker("cancelled", t.TempDir()+"/cancelled", 60), t.TempDir()+"/mark"
		held.HoldsLease, cancelled.HoldsLease = true, true
		if o := run(t.Context(), r.node, held); o.err != nil || o.exit.Code != 0 {
			t.Errorf("%+v", o)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if x, err := r.node.Run(ctx, cancelled, supervisor.Sinks{Started: cancel}); err != nil || x.Cause != supervisor.Cancelled {
			t.Errorf("%+v, %v", x, err)
		}
		launch(t, r.node, marker("runs", file, 60))
		r.client.Close()
		<-r.lapsed
		if exists(file) {
			t.Error("a task that does not hold the lease has kept the node")
		}
	})
}

// The lease stays that of the first program, and only the newest program renews it.
func TestLeaseAfterAttach(t *testing.T) {
	overTime(t, shortLease, mark, func(t *testing.T, r *rig) {
		c, second, _, err := r.attach(t, 2) // it asks for an hour
		if err != nil {
			t.Fatal(err)
		}
		if got := second.Facts().Lease; got != shortLease {
			t.Errorf("the lease is %v", got)
		}
		file := t.TempDir() + "/mark"
		if o := run(t.Context(), second, marker("task", file, outlivesIt)); o.err != nil || o.exit.Code != 0 || !exists(file) {
			t.Errorf("the newest one did not renew the lease: %+v", o)
		}
		c.Close() // the first client is still there
		<-r.lapsed
		if _, _, _, err := r.attach(t, 3); !errors.Is(err, supervisor.ErrLapsed) {
			t.Errorf("%v", err)
		}
	})
}
