package gangplans

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/letgo"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// ended is how long processes run on after they were told to end.
const ended = 20 * time.Second

// lingering runs a test in a cloud whose processes need a while to end, with a pool of two nodes.
func lingering(t *testing.T, f func(t *testing.T, c *e2etest.SimCloud, p *gputrain.Compute, running *atomic.Int64)) {
	var running atomic.Int64
	exec := func(ctx context.Context, _ sim.Command) int {
		running.Add(1)
		defer running.Add(-1)
		<-ctx.Done()
		time.Sleep(ended)
		return -15
	}
	e2etest.InCloud(t, sim.Options{Exec: exec}, func(t *testing.T, c *e2etest.SimCloud) {
		f(t, c, c.Pool(t, gputrain.Spec{Nodes: 2}), &running)
	})
}

var lingers = gputrain.Training{Task: gputrain.Cmd("train"), Nodes: 2, ProcessesPerNode: 1}

// giveUp begins a call, gives it up after a minute, and returns how long it took from then on.
func giveUp(t *testing.T, p *gputrain.Compute, call func(c *gputrain.Compute) error) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	if err := call(p.WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the end of the context", err)
	}
	return time.Since(began) - time.Minute
}

// A Train whose caller has given up returns while its processes end. Its nodes take no task, and no other training, before they have: a
// Train of the same name waits. Close waits too.
func TestLeftTrainingKeepsItsNodes(t *testing.T) {
	train := func(r *gputrain.TrainResult) func(c *gputrain.Compute) error {
		return func(c *gputrain.Compute) (err error) {
			*r, err = c.Train(lingers)
			return err
		}
	}
	for name, next := range map[string]func(t *testing.T, p *gputrain.Compute){
		"task": func(t *testing.T, p *gputrain.Compute) {
			began := time.Now()
			if late := giveUp(t, p, func(c *gputrain.Compute) error { _, err := c.Run(gputrain.Cmd("task")); return err }); late > letgo.Patience {
				t.Errorf("it returned after %v", late)
			}
			if r := time.Since(began); r < ended-letgo.Longest {
				t.Errorf("it ran for %v", r)
			}
		},
		"training of the same name": func(t *testing.T, p *gputrain.Compute) {
			var r gputrain.TrainResult
			if late := giveUp(t, p, train(&r)); late > letgo.Longest {
				t.Errorf("it returned after %v", late)
			}
		},
		"given up before it begins": func(t *testing.T, p *gputrain.Compute) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			if _, err := p.WithContext(ctx).Train(lingers); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second+letgo.Patience {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		},
		"Close": func(t *testing.T, p *gputrain.Compute) {},
	} {
		t.Run(name, func(t *testing.T) {
			lingering(t, func(t *testing.T, c *e2etest.SimCloud, p *gputrain.Compute, running *atomic.Int64) {
				var r gputrain.TrainResult
				if late := giveUp(t, p, train(&r)); late != letgo.Longest {
					t.Errorf("it returned after %v", late)
				}
				if running.Load() != 2 {
					t.Fatalf("%d of its processes run", running.Load())
				}
				if usd, known := r.CostUSD.USD(); !known || usd <= 0 || r.Elapsed < time.Minute || len(r.Ranks) > 0 {
					t.Errorf("%+v", r)
				}
				var most atomic.Int64
				stop := make(chan struct{})
				go func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(time.Second):
							most.Store(max(most.Load(), running.Load()))
						}
					}
				}()
				next(t, p)
				close(stop)
				c.CloseAndCheck(t, p)
				if most.Load() > 2 {
					t.Errorf("%d processes ran at the same time", most.Load())
				}
			})
		})
	}
}

// What a caller has given up is not gone on with after Attach, though its processes still ran when the program left the pool.
func TestLeftTrainingsAreNotGoneOnWith(t *testing.T) {
	for name, call := range map[string]func(c *gputrain.Compute) error{
		"Run": func(c *gputrain.Compute) error { _, err := c.Run(gputrain.Cmd("task")); return err },
		"Gather": func(c *gputrain.Compute) error {
			_, err := c.Gather(gputrain.Cmd("task"), gputrain.Cmd("task"))
			return err
		},
		"Broadcast": func(c *gputrain.Compute) error { _, err := c.Broadcast(gputrain.Cmd("task")); return err },
		"Train":     func(c *gputrain.Compute) error { _, err := c.Train(lingers); return err },
	} {
		t.Run(name, func(t *testing.T) {
			lingering(t, func(t *testing.T, c *e2etest.SimCloud, p *gputrain.Compute, running *atomic.Int64) {
				giveUp(t, p, call)
				if running.Load() == 0 {
					t.Fatal("nothing runs any more")
				}
				p.Detach() // it refuses once, since these machines end with this program
				id, err := p.Detach()
				if err != nil {
					t.Fatal(err)
				}
				p, err = gputrain.Attach(t.Context(), sim.Config{Cloud: c.Cloud}, id, gputrain.WithStateDir(c.State), gputrain.WithEvents(c.Tell))
				if err != nil {
					t.Fatal(err)
				}
				defer c.CloseAndCheck(t, p)
				if jobs := p.Jobs(); len(jobs) > 0 {
					t.Errorf("%d jobs, want none", len(jobs))
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				_, err = p.WithContext(ctx).Broadcast(gputrain.Task{Args: []string{"task"}, Timeout: time.Minute})
				if failed, _ := errors.AsType[*gputrain.TaskError](err); failed == nil || failed.Cause != gputrain.CauseTimeout { // what waits for its Train has all nodes
					t.Errorf("no task runs: %v", err)
				}
			})
		})
	}
}
