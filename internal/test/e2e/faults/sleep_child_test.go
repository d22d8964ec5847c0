//go:build unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// A sleeper is a program that is stopped while its pool works, and continues later. It reports each started task, and
// at the end "well" if nothing was lost.
type sleeper struct {
	Endpoint string // of the cloud
	State    string // its state directory
	Dir      string // a folder that the program shares with its nodes, with the gate files
	Lease    time.Duration
	Stop     time.Duration // how long the program is stopped
	Lapses   bool          // that is longer than the lease
}

var sleepers = e2etest.NewRole("sleep", func(s sleeper) error {
	if err := s.work(); err != nil {
		return err
	}
	e2etest.Say("well")
	return nil
})

// Life limits the life of a sleeper, even if the test dies.
func (s sleeper) Life() time.Duration { return s.Stop + e2etest.ChildLife }

// sleeperTasks is large enough that some tasks wait for a slot.
const sleeperTasks, sleeperSlots = 8, 6

// work runs commands, a function and a stream while the program is stopped, and checks that nothing of them is lost.
func (s sleeper) work() error {
	var mu sync.Mutex
	var bad []string
	pool, err := gputrain.Open(context.Background(), sim.Config{Endpoint: s.Endpoint}, gputrain.Spec{Nodes: 2, Concurrency: sleeperSlots / 2, Lease: s.Lease},
		gputrain.WithStateDir(s.State), gputrain.WithResultsDir(s.State), gputrain.WithEvents(func(e gputrain.Event) {
			if e.Kind == gputrain.EventTask && e.State == "started" {
				e2etest.Say("started %s", e.Name)
			}
			if e.Kind == gputrain.EventRetry && !s.Lapses || e.State == gputrain.NodeLost.String() || e.State == gputrain.NodeFailed.String() {
				mu.Lock()
				defer mu.Unlock()
				bad = append(bad, fmt.Sprintf("%v %s: %v", e.Kind, e.State, e.Err))
			}
		}))
	if err != nil {
		return err
	}
	defer pool.Close()
	var all sync.WaitGroup
	errs := make([]error, 3)
	all.Go(func() {
		got, err := awaitGate.Run(pool, filepath.Join(s.Dir, "meanwhile"))
		if errs[0] = err; err == nil && got != "passed" {
			errs[0] = fmt.Errorf("the function returned %q", got)
		}
	})
	all.Go(func() {
		if s.Lapses {
			return // a stream is not run again
		}
		n := 0
		for got, err := range countToGate.Run(pool, filepath.Join(s.Dir, "after")) {
			if n++; err != nil || got != n {
				errs[1] = fmt.Errorf("value %d of the stream is %d, %w", n, got, err)
				return
			}
		}
		if n == 0 {
			errs[1] = errors.New("the stream was empty")
		}
	})
	all.Go(func() {
		var tasks []gputrain.Task
		for i := range sleeperTasks {
			gate := []string{"meanwhile", "after"}[i%2]
			task := gputrain.Script(fmt.Sprintf(`cd '%[1]s'; trap 'echo cut >>cut-%[2]d; exit 1' TERM; echo ran >>ran-%[2]d; yes begin | head -n 5000; until [ -e %[3]s ]; do sleep 0.05; done; yes %[2]d | head -n 5000; echo over >>over-%[2]d`, s.Dir, i, gate))
			task.Name = fmt.Sprint("script ", i)
			tasks = append(tasks, task)
		}
		results, err := pool.Gather(tasks...)
		if errs[2] = err; err != nil {
			return
		}
		for i, r := range results {
			want := strings.Repeat("begin\n", 5000) + strings.Repeat(fmt.Sprintln(i), 5000)
			attempts := 1
			if s.Lapses {
				attempts = e2etest.Lines(filepath.Join(s.Dir, fmt.Sprint("ran-", i)))
			}
			if r.Attempts != attempts || string(r.Stdout) != want {
				errs[2] = fmt.Errorf("task %d: %d attempts, %d bytes of %d", i, r.Attempts, len(r.Stdout), len(want))
			}
		}
	})
	all.Wait()
	mu.Lock()
	defer mu.Unlock()
	if bad != nil {
		errs = append(errs, errors.New(strings.Join(bad, "; ")))
	}
	return errors.Join(append(errs, pool.Close())...)
}

var (
	awaitGate = gputrain.Func("await-gate", func(ctx context.Context, gate string) (string, error) {
		for !e2etest.Exists(gate) && ctx.Err() == nil {
			time.Sleep(50 * time.Millisecond)
		}
		return "passed", ctx.Err()
	})
	countToGate = gputrain.GeneratorFunc("count-to-gate", func(ctx context.Context, gate string, yield func(int) bool) error {
		for n := 1; yield(n) && !e2etest.Exists(gate); n++ { // at least one value, even after a late start
			time.Sleep(10 * time.Millisecond)
		}
		return ctx.Err()
	})
)
