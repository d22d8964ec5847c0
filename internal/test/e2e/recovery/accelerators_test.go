package recovery

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// devices records which task has each device of a cloud's machines.
type devices struct {
	mu    sync.Mutex
	held  map[string]string // by machine and device
	twice []string
	fewer []string // tasks that had not as many as they asked for
}

// exec runs tasks whose arguments are "sleep", a time, and how many devices they asked for, on machines of eight.
func (d *devices) exec(ctx context.Context, cmd sim.Command) int {
	ids := strings.Split(cmd.Getenv("CUDA_VISIBLE_DEVICES"), ",")
	if ids[0] == "" {
		ids = strings.Split("0,1,2,3,4,5,6,7", ",")
	}
	d.mu.Lock()
	if want := cmd.Args[2]; want != "0" && want != strconv.Itoa(len(ids)) {
		d.fewer = append(d.fewer, fmt.Sprint(cmd.Task, " has ", ids, " of ", want))
	}
	if d.held == nil {
		d.held = map[string]string{}
	}
	for _, id := range ids {
		key := cmd.ID + "." + id
		if other := d.held[key]; other != "" {
			d.twice = append(d.twice, key+" by "+other+" and "+cmd.Task)
		}
		d.held[key] = cmd.Task
	}
	d.mu.Unlock()
	long, err := time.ParseDuration(cmd.Args[1])
	if err != nil {
		return 2
	}
	select {
	case <-time.After(long):
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		delete(d.held, cmd.ID+"."+id)
	}
	return 0
}

// check fails the test if two tasks had a device.
func (d *devices) check(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.twice != nil || d.fewer != nil {
		t.Errorf("devices were held twice: %q; %q", d.twice, d.fewer)
	}
}

// onDevices returns a task that sleeps, on so many devices of its own.
func onDevices(long time.Duration, n int) gputrain.Task {
	t := gputrain.Cmd("sleep", long.String(), strconv.Itoa(n))
	t.Accelerators = n
	return t
}

func eightGPUs(spot bool) []gputrain.Offer {
	return []gputrain.Offer{{
		InstanceType: "h100x8", VCPUs: 128, MemoryGiB: 1024, DiskGiB: 2000, HourlyUSD: driver.USD(24), Spot: spot,
		Accelerator: accelerators.H100(accelerators.Count(8), accelerators.Memory(80)),
	}}
}

// An elastic pool gets a node of eight devices for eight tasks of one each. Each costs an eighth of the node.
func TestAPoolGrowsByDevices(t *testing.T) {
	var d devices
	e2etest.InCloud(t, sim.Options{Offers: eightGPUs(false), Exec: d.exec}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{MaxNodes: 4, Accelerator: accelerators.H100(accelerators.Count(8))})
		var tasks []gputrain.Task
		for range 8 {
			tasks = append(tasks, onDevices(time.Hour, 1))
		}
		results, err := p.Gather(tasks...)
		if err != nil || c.CountLaunches() != 1 {
			t.Errorf("%d machines were launched, %v", c.CountLaunches(), err)
		}
		for i, r := range results {
			if usd, known := r.CostUSD.USD(); !known || usd < 2.99 || usd > 3.01 {
				t.Errorf("task %d cost $%.2f, known: %t", i, usd, known)
			}
		}
		if _, err := p.Gather(onDevices(time.Hour, 5), onDevices(time.Hour, 5), onDevices(time.Hour, 3)); err != nil || c.CountLaunches() != 2 {
			t.Errorf("%d machines were launched, %v", c.CountLaunches(), err)
		}
		d.check(t)
		c.CloseAndCheck(t, p)
	})
}

// Whatever becomes of the machines, no two tasks have a device, and each task ends well as long as it does not lose too
// many nodes.
func TestAcceleratorsOfLostNodes(t *testing.T) {
	retried := 0
	for seed := range uint64(4) {
		var d devices
		e2etest.InCloud(t, sim.Options{Seed: seed, Offers: eightGPUs(true), Exec: d.exec, BootTime: time.Minute}, func(t *testing.T, c *e2etest.SimCloud) {
			rng := rand.New(rand.NewPCG(seed, 3))
			p := c.Pool(t, gputrain.Spec{
				Nodes: 3, Concurrency: 1 + int(seed%2), Accelerator: accelerators.H100(accelerators.Count(8)), Allocation: gputrain.Spot,
			})
			var tasks []gputrain.Task
			for range 60 {
				tasks = append(tasks, onDevices(time.Duration(1+rng.IntN(20))*time.Minute, []int{0, 1, 1, 2, 3, 4, 8}[rng.IntN(7)]))
			}
			stop := make(chan struct{})
			var losing sync.WaitGroup
			losing.Go(func() {
				for range 4 {
					select {
					case <-time.After(25 * time.Minute):
					case <-stop:
						return
					}
					id := p.Nodes()[rng.IntN(3)].ID
					if rng.IntN(2) == 0 {
						c.Vanish(id)
					} else {
						c.Preempt(id, time.Minute)
					}
				}
			})
			_, err := p.Gather(tasks...)
			close(stop)
			losing.Wait()
			if err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			for _, e := range c.Events() {
				if e.Kind == gputrain.EventRetry {
					retried++
				}
			}
			d.check(t)
			c.CloseAndCheck(t, p)
		})
	}
	if retried == 0 {
		t.Error("no task has lost its node")
	}
}

// A Broadcast takes devices on each node, whatever runs there, and is refused if a node has too few.
func TestABroadcastOnDevices(t *testing.T) {
	var d devices
	e2etest.InCloud(t, sim.Options{Offers: eightGPUs(false), Exec: d.exec}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2, Accelerator: accelerators.H100(accelerators.Count(8))})
		var small []gputrain.Task
		for range 30 {
			small = append(small, onDevices(10*time.Minute, 1))
		}
		done := make(chan error, 1)
		go func() { _, err := p.Gather(small...); done <- err }()
		time.Sleep(time.Minute)
		began := time.Now()
		results, err := p.Broadcast(onDevices(time.Minute, 8))
		if err != nil || len(results) != 2 {
			t.Errorf("%d results, %v", len(results), err)
		}
		if waited := time.Since(began); waited > 30*time.Minute { // its turn, and the end of what runs on the nodes
			t.Errorf("it took %v", waited)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		d.check(t)
		c.CloseAndCheck(t, p)
	})
}
