//go:build unix

package simnode_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/internal/supervisor"
)

// Close ends what runs, and a client that comes back later finds nothing.
func TestClose(t *testing.T) {
	exec := func(ctx context.Context, _ simnode.Command) int { return wait(ctx, 100*time.Second) }
	both(t, time.Minute, exec, func(t *testing.T, r *rig) {
		started, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := r.node.Run(context.Background(), supervisor.Spec{ID: "sleep", Script: "exec sleep 100"}, supervisor.Sinks{Started: func() { close(started) }})
			ended <- err
		}()
		<-started
		if err := r.node.Close(t.Context(), true); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, supervisor.ErrClosed) {
			t.Errorf("the task: %v", err)
		}
	})
}

// A node that is closed, or never existed, cannot be attached to. Start finds the closed node's folder, or makes a
// new one if nothing is left.
func TestAttachToNothing(t *testing.T) {
	both(t, time.Minute, passGate, func(t *testing.T, r *rig) {
		cfg := supervisor.Config{PoolID: r.id, Root: r.node.Facts().Root + "-other", Generation: 2}
		if _, _, err := supervisor.Attach(t.Context(), r.connect(t).Client, cfg); !errors.Is(err, supervisor.ErrLapsed) {
			t.Errorf("another folder: %v", err)
		}
		run(t.Context(), r.node, gated("task", open, 1, 0)).check(t, "while it is there", 1, 0)
		lapsed := func(when string) {
			t.Helper()
			if _, _, _, err := r.attach(t, 2); !errors.Is(err, supervisor.ErrLapsed) {
				t.Errorf("Attach, %s: %v", when, err)
			}
		}
		if err := r.node.Close(t.Context(), false); err != nil {
			t.Error(err)
		}
		lapsed("closed")
		cfg.Root = r.node.Facts().Root
		if _, err := supervisor.Start(t.Context(), r.connect(t).Client, cfg); !errors.Is(err, supervisor.ErrLapsed) {
			t.Errorf("Start: %v", err)
		}
		lapsed("removed by a Start that failed")
		cfg.Generation = 1
		anew, err := supervisor.Start(t.Context(), r.connect(t).Client, cfg)
		if err != nil {
			t.Fatal(err)
		}
		closes(t, anew)
		run(t.Context(), anew, gated("task", open, 2, 3)).check(t, "anew", 2, 3)
	})
}
