package hostile_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/letgo"
	"github.com/gputrain/gputrain/internal/test/hostile"
	"github.com/gputrain/gputrain/providers/sim"
)

var (
	sum = gputrain.ConsumerFunc("hostile/sum", func(_ context.Context, ins iter.Seq[int]) (total int, _ error) {
		for n := range ins {
			total += n
		}
		return total, nil
	})
	same = gputrain.PipeFunc("hostile/same", func(_ context.Context, ins iter.Seq[int], yield func(int) bool) error {
		for n := range ins {
			if !yield(n) {
				break
			}
		}
		return nil
	})
)

const (
	// A call returns within atOnce of the end of its context.
	atOnce = letgo.Patience + 200*time.Millisecond
	// Train waits for nodes that answer, and calls of tasks with files that are to come anyway have a minute.
	soon, inAMinute = letgo.Longest + letgo.Patience, time.Minute + 5*time.Second
)

// A letGo is a call of a pool that ends with its context, and returns within a time of that, whatever the nodes do.
type letGo struct {
	call   func(c *gputrain.Compute, ctx context.Context, dir string) error
	within time.Duration
}

// numbers are endless.
func numbers(yield func(int) bool) {
	for n := 0; yield(n); n++ {
		time.Sleep(100 * time.Millisecond)
	}
}

// drain takes all values of a stream, and returns its last error.
func drain[T any](values iter.Seq2[T, error]) (last error) {
	for _, err := range values {
		last = err
	}
	return last
}

func letGoWithin(within time.Duration, call func(c *gputrain.Compute, dir string) error) letGo {
	return letGo{func(c *gputrain.Compute, ctx context.Context, dir string) error { return call(c.WithContext(ctx), dir) }, within}
}

func letGoTask(t gputrain.Task, within time.Duration) letGo {
	return letGoWithin(within, func(c *gputrain.Compute, _ string) error { _, err := c.Run(t); return err })
}

func letGoTraining(t gputrain.Training) letGo {
	return letGoWithin(soon, func(c *gputrain.Compute, _ string) error {
		t.Nodes, t.ProcessesPerNode = 2, 1
		_, err := c.Train(t)
		return err
	})
}

// letGoCalls are all calls of a pool that take a context and wait for nodes. Close, Open and the like return once what they have made is
// gone: see TestContextEndsAtEveryStageOfOpen.
var letGoCalls = map[string]letGo{
	"Run":                      letGoTask(gputrain.Cmd("wait"), atOnce),
	"Run with Outputs":         letGoTask(gputrain.Task{Args: []string{"wait"}, Outputs: []string{"x"}}, inAMinute),
	"Run with DropIfCancelled": letGoTask(gputrain.Task{Args: []string{"wait"}, Outputs: []string{"x"}, DropIfCancelled: true}, atOnce),
	"Run with Checkpoints":     letGoTask(gputrain.Task{Args: []string{"wait"}, Checkpoints: gputrain.Checkpoints{Dir: "saved"}, Name: "saves"}, inAMinute),
	"Gather": letGoWithin(atOnce, func(c *gputrain.Compute, _ string) error {
		_, err := c.Gather(gputrain.Cmd("wait"), gputrain.Cmd("wait"), gputrain.Cmd("wait"))
		return err
	}),
	"Stream": letGoWithin(atOnce, func(c *gputrain.Compute, _ string) error {
		return drain(c.Stream(gputrain.Cmd("wait"), gputrain.Cmd("wait"), gputrain.Cmd("wait")))
	}),
	"Broadcast": letGoWithin(atOnce, func(c *gputrain.Compute, _ string) error {
		_, err := c.Broadcast(gputrain.Cmd("wait"))
		return err
	}),
	"Function.Run": letGoWithin(atOnce, func(c *gputrain.Compute, _ string) error {
		_, err := double.Run(c, 1)
		return err
	}),
	"Function.Gather": letGoWithin(atOnce, func(c *gputrain.Compute, _ string) error {
		_, err := double.Gather(c, 1, 2, 3)
		return err
	}),
	"Function.Broadcast": letGoWithin(atOnce, func(c *gputrain.Compute, _ string) error {
		_, err := double.Broadcast(c, 1)
		return err
	}),
	"Function.Stream": letGoWithin(atOnce, func(c *gputrain.Compute, _ string) error { return drain(double.Stream(c, 1, 2, 3)) }),
	"Generator.Run":   letGoWithin(atOnce, func(c *gputrain.Compute, _ string) error { return drain(count.Run(c, 100)) }),
	"Consumer.Run": letGoWithin(atOnce, func(c *gputrain.Compute, _ string) error {
		_, err := sum.Run(c, numbers)
		return err
	}),
	"Pipe.Run":           letGoWithin(atOnce, func(c *gputrain.Compute, _ string) error { return drain(same.Run(c, numbers)) }),
	"Upload":             letGoWithin(atOnce, func(c *gputrain.Compute, dir string) error { return c.Upload(filepath.Join(dir, "file"), "file") }),
	"Upload of a folder": letGoWithin(atOnce, func(c *gputrain.Compute, dir string) error { return c.Upload(dir, "folder") }),
	"Download": letGoWithin(atOnce, func(c *gputrain.Compute, dir string) error {
		return c.Download("file", filepath.Join(dir, "taken"))
	}),
	"Resize":            letGoWithin(atOnce, func(c *gputrain.Compute, _ string) error { return c.Resize(4) }),
	"Resize to fewer":   letGoWithin(atOnce, func(c *gputrain.Compute, _ string) error { return c.Resize(1) }),
	"Train":             letGoTraining(gputrain.Training{Task: gputrain.Cmd("wait")}),
	"Train, torchrun":   letGoTraining(gputrain.Training{Task: gputrain.Cmd("wait"), Launcher: gputrain.Torchrun}),
	"Train, MPI":        letGoTraining(gputrain.Training{Task: gputrain.Cmd("wait"), Launcher: gputrain.MPI}),
	"Train, a function": letGoTraining(gputrain.Training{Task: double.Call(1)}),
	"Train, with files": letGoTraining(gputrain.Training{Task: gputrain.Task{Args: []string{"wait"}, Outputs: []string{"x"}, Checkpoints: gputrain.Checkpoints{Dir: "saved"}, Name: "saves"}}),
	"Train, a check":    letGoTraining(gputrain.Training{Task: gputrain.Cmd("wait"), Check: gputrain.Cmd("wait")}),
	"Dial": {func(c *gputrain.Compute, ctx context.Context, _ string) error {
		conn, err := c.Dial(ctx, 0, "127.0.0.1:80")
		if err == nil {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			io.Copy(io.Discard, conn)
		}
		return err
	}, atOnce},
	"Shell": {func(c *gputrain.Compute, ctx context.Context, _ string) error {
		return c.Shell(ctx, 0, strings.NewReader("wait\n"), io.Discard, io.Discard)
	}, atOnce},
}

// babble writes rubbish until the session ends.
func babble(s *hostile.Session, dst io.Writer, _ io.Reader) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.Done():
			return
		case <-tick.C:
			if _, err := dst.Write(bytes.Repeat([]byte("gputrain: step=\x00\n"), 50)); err != nil {
				<-s.Done()
				return
			}
		}
	}
}

// endsNever is the Exit of a session whose end is not told.
func endsNever(s *hostile.Session, _ string, _ []byte) { <-s.Done() }

// letGoNodes are what nodes do, from some moment on.
var letGoNodes = map[string]func(c *cloud){
	"answer": func(*cloud) {},
	"say nothing": func(c *cloud) {
		all(c, func(n *made) {
			n.Lie(always(hostile.Lie{Stdout: hostile.Silence, Stderr: hostile.Silence, Exit: endsNever}))
		})
	},
	"say nothing, and are away": func(c *cloud) {
		all(c, func(n *made) {
			n.Lie(always(hostile.Lie{Stdout: hostile.Silence, Stderr: hostile.Silence, Exit: endsNever}))
			n.HangUp()
		})
	},
	"babble": func(c *cloud) {
		all(c, func(n *made) {
			n.Lie(always(hostile.Lie{Stdout: babble, Stderr: babble, Exit: endsNever}))
			n.HangUp()
		})
	},
	"swallow all":      func(c *cloud) { all(c, func(n *made) { n.Swallow() }) },
	"one swallows all": func(c *cloud) { c.at(1).Swallow() },
}

func all(c *cloud, do func(*made)) {
	for rank := range 2 {
		do(c.at(rank))
	}
}

// TestCallersAreLetGo ends the contexts of calls at many moments, on nodes that do as in letGoNodes, from the call on or from the moment
// before: each call returns within its time, and the pool can still be closed.
func TestCallersAreLetGo(t *testing.T) {
	moments := []time.Duration{0, 10 * time.Millisecond, 3 * time.Second, 20 * time.Second}
	turn := 0
	for _, name := range sortedKeys(letGoCalls) {
		for _, how := range sortedKeys(letGoNodes) {
			for _, after := range moments {
				for _, later := range []bool{false, true} {
					if turn++; testing.Short() && turn%17 != 0 {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/%v/%t", name, how, after, later), func(t *testing.T) {
						callIsLetGo(t, letGoCalls[name], letGoNodes[how], after, later)
					})
				}
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func callIsLetGo(t *testing.T, one letGo, do func(*cloud), after time.Duration, later bool) {
	state, results, dir := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), bytes.Repeat([]byte("x"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	waits := func(ctx context.Context, _ sim.Command) int {
		<-ctx.Done()
		time.Sleep(5 * time.Second)
		return -15
	}
	inBubbleWith(t, sim.Options{Exec: waits}, func(t *testing.T, own *sim.Cloud) {
		c := &cloud{Provider: sim.Config{Cloud: own}, nodes: map[string]*made{}}
		defer c.close()
		pool, err := gputrain.Open(t.Context(), c, gputrain.Spec{Nodes: 2, MaxReplacements: -1}, gputrain.WithStateDir(state), gputrain.WithResultsDir(results))
		if err != nil {
			t.Fatal(err)
		}
		if !later {
			do(c)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var returned time.Time
		var calling sync.WaitGroup
		calling.Go(func() {
			err = one.call(pool, ctx, dir)
			returned = time.Now()
		})
		time.Sleep(after)
		if later {
			do(c)
			time.Sleep(100 * time.Millisecond)
		}
		cancel()
		given := time.Now()
		calling.Wait()
		if late := returned.Sub(given); late > one.within {
			t.Errorf("it returned after %v: %v", late, err)
		}
		if returned.After(given) && err == nil {
			t.Error("it has no error")
		}
		pool.Close()
		if left := own.Live(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}
