package recovery

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// sleeps returns n tasks that take a time of d each.
func sleeps(n int, d string) []gputrain.Task {
	tasks := make([]gputrain.Task, n)
	for i := range tasks {
		tasks[i] = gputrain.Cmd("sleep", d)
	}
	return tasks
}

// Open rents nothing. Waiting tasks launch nodes, and idle nodes are ended.
func TestAPoolGrowsAndShrinks(t *testing.T) {
	e2etest.InCloud(t, sim.Options{BootTime: 30 * time.Second}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{MaxNodes: 4, IdleTimeout: 2 * time.Minute})
		time.Sleep(time.Hour)
		if n := c.CountLaunches(); n != 0 || len(p.Nodes()) != 0 {
			t.Errorf("%d machines before there is a task", n)
		}
		if _, err := p.Run(gputrain.Cmd("echo")); err != nil || c.CountLaunches() != 1 {
			t.Errorf("one task had %d machines launched, %v", c.CountLaunches(), err)
		}
		results, err := p.Gather(sleeps(20, "10m")...)
		if err != nil || c.CountLaunches() != 4 {
			t.Errorf("20 tasks had %d machines launched, %v", c.CountLaunches(), err)
		}
		ranks := map[int]int{}
		for _, r := range results {
			ranks[r.Node.Rank]++
		}
		if len(ranks) != 4 {
			t.Errorf("they ran on %v", ranks)
		}
		time.Sleep(time.Minute)
		if n := c.CountMachines(); n != 4 {
			t.Errorf("%d machines before they were idle for long", n)
		}
		time.Sleep(90 * time.Second)
		if n := c.CountMachines(); n != 0 || len(p.Nodes()) != 0 {
			t.Errorf("%d machines after they were idle for long", n)
		}
		if r, err := p.Run(gputrain.Cmd("rank")); err != nil || string(r.Stdout) != "0\n" {
			t.Errorf("after that: %q, %v", r.Stdout, err)
		}
		c.CloseAndCheck(t, p)
	})
}

// If another program, such as Reap on another computer, removes the shared resources of an empty pool, because it takes
// its program for dead, they are created again.
func TestAnEmptyPoolThatWasReapedGrows(t *testing.T) {
	e2etest.InCloud(t, sim.Options{BootTime: 30 * time.Second}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{MaxNodes: 1, IdleTimeout: time.Minute})
		shared := func() (ids []string) {
			for _, r := range c.Live() {
				if r.Kind != "machine" {
					ids = append(ids, r.ID)
				}
			}
			return ids
		}
		made := shared()
		reaper, err := sim.Config{Cloud: c.Cloud}.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			time.Sleep(2 * time.Hour)
			if err := reaper.Release(t.Context(), driver.PoolInfo{ID: p.ID()}); err != nil || len(shared()) != 0 {
				t.Fatalf("%q, %v", shared(), err)
			}
			if _, err := p.Run(gputrain.Cmd("echo")); err != nil {
				t.Error(err)
			}
			if again := shared(); len(made) == 0 || len(again) != len(made) {
				t.Errorf("its machines share %q, and shared %q", again, made)
			}
		}
		c.CloseAndCheck(t, p)
	})
}

// An elastic pool keeps its minimum number of nodes, and grows by slots, not by tasks.
func TestAnElasticPoolHasALeast(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 1, MaxNodes: 5, Concurrency: 4, IdleTimeout: time.Minute})
		if _, err := p.Gather(sleeps(8, "5m")...); err != nil || c.CountLaunches() != 2 {
			t.Errorf("8 tasks of 4 slots each had %d machines, %v", c.CountLaunches(), err)
		}
		time.Sleep(10 * time.Minute)
		if n := c.CountMachines(); n != 1 {
			t.Errorf("%d are left", n)
		}
		c.CloseAndCheck(t, p)
	})
}

// A node with a task is not idle, whatever its rank.
func TestABusyNodeStays(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{MaxNodes: 3, IdleTimeout: time.Minute})
		job := p.Start(gputrain.Task{Args: []string{"sleep", "1h"}, Target: gputrain.OnRank(2)})
		time.Sleep(time.Second)
		synctest.Wait()
		if ids := e2etest.Alive(t, p); len(ids) != 3 {
			t.Errorf("a task for rank 2 has %d nodes launched", len(ids))
		}
		time.Sleep(10 * time.Minute)
		if ids := e2etest.Alive(t, p); len(ids) != 1 {
			t.Errorf("%d nodes are left", len(ids))
		}
		if r, err := job.Wait(); err != nil || r.Attempts != 1 {
			t.Errorf("%d attempts, %v", r.Attempts, err)
		}
		c.CloseAndCheck(t, p)
	})
}

func TestResize(t *testing.T) {
	for _, most := range []int{0, 2, 10} {
		t.Run(fmt.Sprint("MaxNodes ", most), func(t *testing.T) {
			e2etest.InCloud(t, sim.Options{BootTime: time.Minute}, func(t *testing.T, c *e2etest.SimCloud) {
				p := c.Pool(t, gputrain.Spec{Nodes: 2, MaxNodes: most})
				if err := p.Resize(5); err != nil || len(e2etest.Alive(t, p)) != 5 || !e2etest.AllReady(p) {
					t.Errorf("%v: %v", p.Nodes(), err)
				}
				job := p.Start(gputrain.Task{Args: []string{"sleep", "1h"}, Target: gputrain.OnRank(4)})
				time.Sleep(time.Second)
				if err := p.Resize(1); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * time.Minute)
				if ids := e2etest.Alive(t, p); len(ids) != 1 {
					t.Errorf("%d nodes", len(ids))
				}
				if r, err := job.Wait(); err != nil || r.Attempts != 1 {
					t.Errorf("the task on a node that was removed: %d attempts, %v", r.Attempts, err)
				}
				err := p.Resize(0)
				if (err == nil) != (most > 0) {
					t.Errorf("to none: %v", err)
				}
				c.CloseAndCheck(t, p)
			})
		})
	}
}

// If all nodes of a fixed pool are busy, the surplus nodes end when their tasks have ended.
func TestResizeDrains(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 3})
		all := make(chan error, 1)
		go func() {
			_, err := p.Gather(sleeps(30, "10m")...)
			all <- err
		}()
		time.Sleep(time.Minute)
		began := time.Now()
		if err := p.Resize(1); err != nil || time.Since(began) > 10*time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		time.Sleep(time.Second)
		if n := c.CountMachines(); n != 1 {
			t.Errorf("%d machines", n)
		}
		if err := <-all; err != nil {
			t.Error(err)
		}
		c.CloseAndCheck(t, p)
	})
}

// A broadcast that was accepted is completed, even on a node that is about to end.
func TestResizeWaitsForABroadcast(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2})
		all := make(chan error, 2)
		for range 2 { // the second one waits for slots
			go func() {
				_, err := p.Broadcast(gputrain.Cmd("sleep", "10m"))
				all <- err
			}()
		}
		time.Sleep(time.Minute)
		if err := p.Resize(1); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-all; err != nil {
				t.Error(err)
			}
		}
		c.CloseAndCheck(t, p)
	})
}

// If no node can be rented, waiting tasks fail with the provider's reason. A later task tries again.
func TestAnElasticPoolWithoutCapacity(t *testing.T) {
	none := e2etest.OfferAt("here", 0.2)
	tasks := map[string]gputrain.Task{
		"any":    gputrain.Cmd("echo"),
		"rank":   {Args: []string{"echo"}, Target: gputrain.OnRank(1)},
		"labels": {Args: []string{"echo"}, Target: gputrain.OnLabels(map[string]string{"region": "here"})},
	}
	for name, task := range tasks {
		t.Run(name, func(t *testing.T) {
			e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{none}, Quota: 0}, func(t *testing.T, c *e2etest.SimCloud) {
				p := c.Pool(t, gputrain.Spec{MaxNodes: 3})
				c.SetOffers()
				began := time.Now()
				_, err := p.Run(task)
				if !errors.Is(err, gputrain.ErrNoOffers) || time.Since(began) > 5*time.Minute {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				if err := p.Resize(2); !errors.Is(err, gputrain.ErrNoOffers) {
					t.Errorf("resize: %v", err)
				}
				if err := p.Resize(0); err != nil {
					t.Errorf("resize to none: %v", err)
				}
				_, err = p.Broadcast(gputrain.Cmd("echo"))
				if !errors.Is(err, gputrain.ErrNoOffers) {
					t.Errorf("broadcast: %v", err)
				}
				c.SetOffers(none)
				time.Sleep(time.Minute)
				if r, err := p.Run(task); err != nil {
					t.Errorf("later: %d attempts, %v", r.Attempts, err)
				}
				c.CloseAndCheck(t, p)
			})
		})
	}
}

// A broadcast on an empty pool launches one node, and one for a rank as many nodes as that needs.
func TestABroadcastWakes(t *testing.T) {
	e2etest.InCloud(t, sim.Options{BootTime: time.Minute}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{MaxNodes: 3, IdleTimeout: time.Minute})
		results, err := p.Broadcast(gputrain.Cmd("rank"))
		if err != nil || len(results) != 1 || string(results[0].Stdout) != "0\n" {
			t.Errorf("%v, %v", results, err)
		}
		results, err = p.Broadcast(gputrain.Task{Args: []string{"rank"}, Target: gputrain.OnRank(2)})
		if err != nil || len(results) != 1 || string(results[0].Stdout) != "2\n" {
			t.Errorf("%v, %v", results, err)
		}
		if _, err := p.Broadcast(gputrain.Task{Args: []string{"rank"}, Target: gputrain.OnRank(3)}); !errors.Is(err, gputrain.ErrInvalid) {
			t.Errorf("a rank that it can never have: %v", err)
		}
		c.CloseAndCheck(t, p)
	})
}

// A pool that is closed while it grows leaves nothing, and waiting calls fail with ErrClosed.
func TestCloseWhileGrowing(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 30 * time.Second} {
		e2etest.InCloud(t, sim.Options{BootTime: time.Minute, Latency: 2 * time.Second}, func(t *testing.T, c *e2etest.SimCloud) {
			p := c.Pool(t, gputrain.Spec{MaxNodes: 3})
			other := p.WithContext(t.Context())
			ends := make(chan error, 3)
			go func() { _, err := other.Gather(sleeps(3, "1h")...); ends <- err }()
			go func() { _, err := other.Broadcast(gputrain.Cmd("echo")); ends <- err }()
			go func() { ends <- other.Resize(2) }()
			time.Sleep(after)
			c.CloseAndCheck(t, p)
			for range 3 {
				if err := <-ends; !errors.Is(err, gputrain.ErrClosed) {
					t.Errorf("closed after %v: %v", after, err)
				}
			}
		})
	}
}

// An elastic pool does not replace an idle node that is lost.
func TestAnIdleLossIsNotReplaced(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{MaxNodes: 1, IdleTimeout: time.Hour})
		p.Run(gputrain.Cmd("echo"))
		c.Vanish(e2etest.Alive(t, p)[0])
		e2etest.WithinVirtualTime(t, "dropped", func() bool { return len(p.Nodes()) == 0 })
		time.Sleep(time.Minute)
		if n := c.CountLaunches(); n != 1 {
			t.Errorf("%d machines", n)
		}
		if _, err := p.Run(gputrain.Cmd("echo")); err != nil {
			t.Error(err)
		}
		c.CloseAndCheck(t, p)
	})
}

// Under random events, ranks have no gaps, no two machines have the same name, no task is lost and nothing remains.
func TestRanksAreDense(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 4
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			e2etest.InCloud(t, sim.Options{Seed: seed, BootTime: 20 * time.Second, BootJitter: time.Minute, Latency: 300 * time.Millisecond}, func(t *testing.T, c *e2etest.SimCloud) {
				r := rand.New(rand.NewPCG(seed, 1))
				p := c.Pool(t, gputrain.Spec{Nodes: int(seed % 3), MaxNodes: 6, IdleTimeout: 90 * time.Second, MaxReplacements: 50}, gputrain.WithEvents(nil))
				var jobs []*gputrain.Job
				for range 60 {
					switch nodes := p.Nodes(); r.IntN(5) {
					case 0, 1:
						task := gputrain.Cmd("sleep", fmt.Sprint(r.IntN(600), "s"))
						if r.IntN(4) == 0 {
							task.Target = gputrain.OnRank(r.IntN(6))
						}
						jobs = append(jobs, p.Start(task))
					case 2:
						if len(nodes) > 0 {
							if id := nodes[r.IntN(len(nodes))].ID; id != "" && r.IntN(3) == 0 {
								c.Vanish(id)
							}
						}
					case 3:
						go p.Resize(r.IntN(7))
					}
					for range r.IntN(60) {
						time.Sleep(time.Second)
						seen := map[string]bool{}
						for i, n := range p.Nodes() {
							if n.Rank != i || n.ID != "" && seen[n.ID] {
								t.Fatalf("rank %d is %+v", i, n)
							}
							seen[n.ID] = true
						}
						if len(p.Nodes()) > 7 {
							t.Fatalf("%d nodes", len(p.Nodes()))
						}
					}
				}
				for _, job := range jobs {
					if r, err := job.Wait(); err != nil && !(errors.Is(err, gputrain.ErrNodeLost) && r.Attempts > 3) && !errors.Is(err, gputrain.ErrInvalid) {
						t.Errorf("%d attempts: %v", r.Attempts, err)
					}
				}
				if err := p.Resize(0); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * time.Minute)
				if n := c.CountMachines(); n != 0 {
					t.Errorf("%d machines when all is done", n)
				}
				c.CloseAndCheck(t, p)
			})
		})
	}
}
