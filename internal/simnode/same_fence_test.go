//go:build unix

package simnode_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/supervisor"
)

// fencedOff checks that a client whose node was taken over gets ErrFenced from every call.
func fencedOff(t *testing.T, who string, n *supervisor.Node) {
	t.Helper()
	<-n.Done()
	tries := map[string]error{"Err": n.Err()}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	tries["Run"] = run(t.Context(), n, gated("trace-run", open, 0, 0)).err
	tries["a cancelled Run"] = run(cancelled, n, gated("trace-cancelled", open, 0, 0)).err
	tries["Run with stdin"] = run(t.Context(), n, withStdin("trace-stdin")).err
	tries["Resume"] = resume(t.Context(), n, "task", nil).err
	n.End("task")
	n.Release("task")
	tries["Close"] = n.Close(t.Context(), true)
	tries["another Close"] = n.Close(t.Context(), false)
	for what, err := range tries {
		if !errors.Is(err, supervisor.ErrFenced) {
			t.Errorf("%s: %s: %v", who, what, err)
		}
	}
}

func withStdin(id string) supervisor.Spec {
	return supervisor.Spec{ID: id, Args: []string{"true"}, Stdin: strings.NewReader("x")}
}

// Among the programs that come to a node, the one with the highest generation gets it. The others change nothing,
// whether they know already, learn it when they reconnect, come late, or come at the same time.
func TestFence(t *testing.T) {
	both(t, time.Minute, passGate, func(t *testing.T, r *rig) {
		gate := t.TempDir() + "/gate"
		want := []supervisor.Found{{ID: "task"}}
		taken := func(generation int) (*client, *supervisor.Node) {
			t.Helper()
			c, n, found, err := r.attach(t, generation)
			if err != nil {
				t.Fatalf("generation %d: %v", generation, err)
			}
			if len(found) != 1 || found[0] != want[0] {
				t.Errorf("generation %d found %+v; want %+v", generation, found, want)
			}
			return c, n
		}
		ended := launch(t, r.node, gated("task", gate, 3, 9))
		want[0].Scratch = r.node.Scratch("task")

		_, second := taken(5)
		if o := <-ended; !errors.Is(o.err, supervisor.ErrFenced) {
			t.Errorf("what the first one had running: %+v", o)
		}
		fencedOff(t, "the first", r.node)
		gone, third := taken(6)
		fencedOff(t, "the second", second)

		for generation := range 6 { // 0 means 1
			if _, _, _, err := r.attach(t, generation); !errors.Is(err, supervisor.ErrFenced) {
				t.Errorf("Attach of generation %d: %v", generation, err)
			}
			cfg := supervisor.Config{PoolID: r.id, Root: r.node.Facts().Root, Generation: generation}
			if _, err := supervisor.Start(t.Context(), r.connect(t).Client, cfg); !errors.Is(err, supervisor.ErrFenced) {
				t.Errorf("Start of generation %d: %v", generation, err)
			}
		}
		if third.Err() != nil {
			t.Errorf("late clients: %v", third.Err())
		}

		// The node cannot tell programs of the same generation apart.
		gone.Close()
		away, equal := taken(6)
		away.off.Store(true)
		r.server.HangUp()
		tries := make(chan error, 3)
		tried, cancel := context.WithCancel(t.Context())
		go func() { tries <- run(t.Context(), equal, gated("trace-a", open, 0, 0)).err }()
		go func() { tries <- run(t.Context(), equal, withStdin("trace-b")).err }()
		go func() { tries <- resume(tried, equal, "task", nil).err }()
		cancel()
		_, fourth := taken(7)
		away.off.Store(false)
		for range cap(tries) {
			if err := <-tries; !errors.Is(err, supervisor.ErrFenced) {
				t.Errorf("what was tried while it was away: %v", err)
			}
		}
		fencedOff(t, "one that was away", equal)
		if fourth.Err() != nil {
			t.Errorf("clients that come back: %v", fourth.Err())
		}

		var all sync.WaitGroup
		var nodes [2]*supervisor.Node
		var errs [2]error
		clients := []*client{r.connect(t), r.connect(t)}
		for i := range nodes {
			all.Go(func() {
				cfg := supervisor.Config{PoolID: r.id, Root: r.node.Facts().Root, Generation: 8 + i}
				nodes[i], _, errs[i] = supervisor.Attach(t.Context(), clients[i].Client, cfg)
			})
		}
		all.Wait()
		if errs[1] != nil {
			t.Fatal(errs[1])
		}
		closes(t, nodes[1])
		if errs[0] == nil {
			fencedOff(t, "the lower of two at the same time", nodes[0])
		} else if !errors.Is(errs[0], supervisor.ErrFenced) {
			t.Errorf("the lower of two at the same time: %v", errs[0])
		}

		_, last := taken(20)
		touch(t, gate)
		resume(t.Context(), last, "task", nil).check(t, "task", 3, 9)
		run(t.Context(), last, gated("new", open, 1, 0)).check(t, "new", 1, 0)
	})
}
