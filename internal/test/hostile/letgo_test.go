package hostile_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/hostile"
	"github.com/gputrain/gputrain/providers/sim"
)

// letGo are the calls of a pool that end with their context, and return at once then, whatever the nodes do. Close, Open and the like
// return once what they have made is gone: see TestContextEndsAtEveryStageOfOpen.
var letGo = map[string]func(c *gputrain.Compute, ctx context.Context, dir string) error{
	"Run": func(c *gputrain.Compute, ctx context.Context, _ string) error {
		_, err := c.WithContext(ctx).Run(gputrain.Cmd("wait"))
		return err
	},
	"Run with Outputs": func(c *gputrain.Compute, ctx context.Context, _ string) error {
		_, err := c.WithContext(ctx).Run(gputrain.Task{Args: []string{"wait"}, Outputs: []string{"x"}, DropIfCancelled: true})
		return err
	},
	"Gather": func(c *gputrain.Compute, ctx context.Context, _ string) error {
		_, err := c.WithContext(ctx).Gather(gputrain.Cmd("wait"), gputrain.Cmd("wait"), gputrain.Cmd("wait"))
		return err
	},
	"Broadcast": func(c *gputrain.Compute, ctx context.Context, _ string) error {
		_, err := c.WithContext(ctx).Broadcast(gputrain.Cmd("wait"))
		return err
	},
	"a function": func(c *gputrain.Compute, ctx context.Context, _ string) error {
		_, err := double.Run(c.WithContext(ctx), 1)
		return err
	},
	"a stream": func(c *gputrain.Compute, ctx context.Context, _ string) error {
		for _, err := range count.Run(c.WithContext(ctx), 100) {
			if err != nil {
				return err
			}
		}
		return nil
	},
	"Upload": func(c *gputrain.Compute, ctx context.Context, dir string) error {
		return c.WithContext(ctx).Upload(filepath.Join(dir, "file"), "file")
	},
	"Download": func(c *gputrain.Compute, ctx context.Context, dir string) error {
		return c.WithContext(ctx).Download("file", filepath.Join(dir, "taken"))
	},
	"Train": func(c *gputrain.Compute, ctx context.Context, _ string) error {
		_, err := c.WithContext(ctx).Train(gputrain.Training{Task: gputrain.Cmd("wait"), Nodes: 2, ProcessesPerNode: 1})
		return err
	},
	"Train with MPI": func(c *gputrain.Compute, ctx context.Context, _ string) error {
		_, err := c.WithContext(ctx).Train(gputrain.Training{Task: gputrain.Cmd("wait"), Nodes: 2, ProcessesPerNode: 1, Launcher: gputrain.MPI})
		return err
	},
	"Dial": func(c *gputrain.Compute, ctx context.Context, _ string) error {
		conn, err := c.Dial(ctx, 0, "127.0.0.1:80")
		if err == nil {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			io.Copy(io.Discard, conn)
		}
		return err
	},
	"Shell": func(c *gputrain.Compute, ctx context.Context, _ string) error {
		return c.Shell(ctx, 0, strings.NewReader("wait\n"), io.Discard, io.Discard)
	},
}

// TestCallersAreLetGo ends the contexts of calls at many moments, on nodes that are honest, fall silent, or are away: each call returns
// within a second, and the pool can still be closed.
func TestCallersAreLetGo(t *testing.T) {
	silent := always(hostile.Lie{Stdout: hostile.Silence, Stderr: hostile.Silence, Exit: func(s *hostile.Session, _ string, _ []byte) { <-s.Done() }})
	for name, call := range letGo {
		for _, how := range []string{"honest", "silent", "silent later", "away"} {
			for _, after := range []time.Duration{0, 10 * time.Millisecond, 3 * time.Second, 20 * time.Second} {
				t.Run(name+"/"+how+"/"+after.String(), func(t *testing.T) {
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
						if how == "silent" || how == "away" {
							c.lie(0, silent)
							c.lie(1, silent)
							if how == "away" {
								c.at(0).HangUp()
								c.at(1).HangUp()
							}
						}
						ctx, cancel := context.WithCancel(t.Context())
						var ended time.Time
						var calling sync.WaitGroup
						calling.Go(func() { call(pool, ctx, dir); ended = time.Now() })
						time.Sleep(after)
						if how == "silent later" {
							c.lie(0, silent)
							c.lie(1, silent)
							c.at(0).HangUp()
							c.at(1).HangUp()
							time.Sleep(100 * time.Millisecond)
						}
						cancel()
						given := time.Now()
						calling.Wait()
						if late := ended.Sub(given); late > time.Second {
							t.Errorf("it returned after %v", late)
						}
						pool.Close()
						if left := own.Live(); len(left) > 0 {
							t.Errorf("left: %v", left)
						}
					})
				})
			}
		}
	}
}
