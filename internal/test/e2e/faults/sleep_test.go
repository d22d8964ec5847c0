//go:build unix

package faults

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// A laptop may be asleep or offline for fiveMinutes under the default lease.
const fiveMinutes = 5 * time.Minute

// defaultLease is the default of Spec.Lease.
const defaultLease = 15 * time.Minute

// Five minutes without a network to the nodes and the cloud lose nothing under the default lease,
// whether connections are cut or no data pass. This holds even if it begins just before the lease
// is renewed, which happens every quarter of the lease.
func TestFiveMinutesOffline(t *testing.T) {
	ways := map[string]func(c *e2etest.SimCloud, a *air, away bool){
		"cut": func(c *e2etest.SimCloud, _ *air, away bool) {
			c.Cut(away)
			if away {
				c.Outage(time.Now(), fiveMinutes)
			}
		},
		"silent": func(c *e2etest.SimCloud, a *air, away bool) {
			a.still(away)
			if c.Calm(); away {
				c.Inject(sim.Fault{Kind: sim.Delay, For: fiveMinutes})
			}
		},
	}
	begin := defaultLease/4 - time.Second
	for name, set := range ways {
		for _, nodes := range []int{1, 3} {
			t.Run(fmt.Sprint(name, ", ", nodes), func(t *testing.T) {
				var ran printers
				e2etest.InCloud(t, sim.Options{Exec: ran.exec}, func(t *testing.T, c *e2etest.SimCloud) {
					offline(t, c, &ran, nodes, begin, set)
				})
			})
		}
	}
}

func offline(t *testing.T, c *e2etest.SimCloud, ran *printers, nodes int, begin time.Duration, set func(*e2etest.SimCloud, *air, bool)) {
	a := newAir()
	p, err := gputrain.Open(t.Context(), throughAir{sim.Config{Cloud: c.Cloud}, a}, gputrain.Spec{Nodes: nodes, Concurrency: 3},
		gputrain.WithStateDir(c.State), gputrain.WithEvents(c.Tell))
	if err != nil {
		t.Fatal(err)
	}
	c.Pools = append(c.Pools, p)
	before := e2etest.Alive(t, p)

	// Some tasks end before the outage, some during it and some after it, and some begin after it.
	var tasks []gputrain.Task
	for i := range 5 * nodes {
		tasks = append(tasks, gputrain.Cmd("print", fmt.Sprint("task-", i), fmt.Sprint((i+1)*150/nodes)))
	}
	everywhere := gputrain.Cmd("print", "everywhere", "500")
	var all sync.WaitGroup
	check := func(what string, results []gputrain.Result, err error, tasks ...gputrain.Task) {
		if err != nil || len(results) != len(tasks) {
			t.Errorf("%s: %d results, %v", what, len(results), err)
			return
		}
		for i, r := range results {
			if r.Err != nil || r.Attempts != 1 || string(r.Stdout) != printedBy(tasks[i].Args) {
				t.Errorf("%s: %d attempts at %v, %d bytes of %d, %v", what, r.Attempts, tasks[i].Args, len(r.Stdout), len(printedBy(tasks[i].Args)), r.Err)
			}
		}
	}
	all.Go(func() {
		results, err := p.Broadcast(everywhere)
		check("broadcast", results, err, slices.Repeat([]gputrain.Task{everywhere}, nodes)...)
	})
	all.Go(func() {
		results, err := p.Gather(tasks...)
		check("gather", results, err, tasks...)
	})
	time.Sleep(begin)
	set(c, a, true)
	time.Sleep(fiveMinutes)
	set(c, a, false)
	all.Wait()

	for what, n := range ran.counts() {
		if want := map[bool]int{true: nodes, false: 1}[what == "everywhere"]; n != want {
			t.Errorf("%s ran %d times", what, n)
		}
	}
	if after := e2etest.Alive(t, p); !slices.Equal(after, before) || c.CountLaunches() != nodes || !e2etest.AllReady(p) {
		t.Errorf("nodes %v became %v, of %d machines", before, after, c.CountLaunches())
	}
	for _, e := range c.Events() {
		if e.Kind == gputrain.EventRetry || e.State == gputrain.NodeLost.String() || e.State == gputrain.NodeFailed.String() {
			t.Errorf("%v: node %d %s %s: %v", e.Kind, e.Node, e.State, e.Task, e.Err)
		}
	}
	c.CloseAndCheck(t, p)
}

// A program that sleeps for longer than its lease has its machines back that cannot end themselves: nothing is bought, what has
// ended meanwhile counts, and only what the end of the lease has cut off runs again.
func TestTwentyMinutesAsleep(t *testing.T) {
	const away = 20 * time.Minute
	for name, set := range map[string]func(*e2etest.SimCloud, *air, bool){
		"cut": func(c *e2etest.SimCloud, _ *air, asleep bool) {
			c.Cut(asleep)
			if asleep {
				c.Outage(time.Now(), away)
			}
		},
		"silent": func(c *e2etest.SimCloud, a *air, asleep bool) {
			a.still(asleep)
			if c.Calm(); asleep {
				c.Inject(sim.Fault{Kind: sim.Delay, For: away})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ran printers
			e2etest.InCloud(t, sim.Options{Exec: ran.exec, NoSelfDestruct: true}, func(t *testing.T, c *e2etest.SimCloud) {
				a := newAir()
				p, err := gputrain.Open(t.Context(), throughAir{sim.Config{Cloud: c.Cloud}, a}, gputrain.Spec{Nodes: 2, Concurrency: 4},
					gputrain.WithStateDir(c.State), gputrain.WithEvents(c.Tell), gputrain.WithoutGuardian())
				if err != nil {
					t.Fatal(err)
				}
				c.Pools = append(c.Pools, p)
				before := e2etest.Alive(t, p)
				// They last for so many seconds. The lease is over 15 to 16 minutes after the program was heard last.
				runs := map[string]int{"60": 1, "500": 1, "800": 1, "1100": 2, "1800": 2}
				tasks := map[string]*gputrain.Job{}
				for seconds := range runs {
					tasks[seconds] = p.Start(gputrain.Cmd("print", "task-"+seconds, seconds))
				}
				time.Sleep(2 * time.Minute)
				set(c, a, true)
				time.Sleep(away)
				set(c, a, false)
				for seconds, job := range tasks {
					r, err := job.Wait()
					if want := runs[seconds]; err != nil || r.Attempts != want || string(r.Stdout) != printedBy([]string{"print", "task-" + seconds, seconds}) {
						t.Errorf("%s seconds: %d attempts, want %d, %d bytes, %v", seconds, r.Attempts, want, len(r.Stdout), err)
					}
				}
				for what, n := range ran.counts() {
					if want := runs[strings.TrimPrefix(what, "task-")]; n != want {
						t.Errorf("%s ran %d times, want %d", what, n, want)
					}
				}
				if after := e2etest.Alive(t, p); !slices.Equal(after, before) || c.CountLaunches() != 2 || !e2etest.AllReady(p) {
					t.Errorf("nodes %v became %v, of %d machines", before, after, c.CountLaunches())
				}
				c.CloseAndCheck(t, p)
			})
		})
	}
}

// If a call hangs for five minutes, the program was probably suspended or offline. So it is retried
// for as long as if it had failed at once.
func TestFiveMinutesOfflineWhileOpening(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		a := newAir()
		a.still(true)
		time.AfterFunc(fiveMinutes, func() {
			c.Outage(time.Now(), 10*time.Second) // the cloud stays unavailable for a moment
			a.still(false)
		})
		p, err := gputrain.Open(t.Context(), throughAir{sim.Config{Cloud: c.Cloud}, a}, gputrain.Spec{Nodes: 2}, gputrain.WithStateDir(c.State))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Broadcast(gputrain.Cmd("rank")); err != nil || c.CountLaunches() != 2 {
			t.Errorf("%d machines, %v", c.CountLaunches(), err)
		}
		c.CloseAndCheck(t, p)
	})
}

// printers run tasks that print a line every ten seconds, and count the runs of each task.
type printers struct {
	mu sync.Mutex
	of map[string]int
}

func (r *printers) exec(ctx context.Context, cmd sim.Command) int {
	r.mu.Lock()
	if r.of == nil {
		r.of = map[string]int{}
	}
	r.of[cmd.Args[1]]++
	r.mu.Unlock()
	seconds, _ := strconv.Atoi(cmd.Args[2])
	for i := range seconds / 10 {
		select {
		case <-time.After(10 * time.Second):
		case <-ctx.Done():
			return -15
		}
		fmt.Fprint(cmd.Stdout, line(cmd.Args[1], i))
	}
	return 0
}

func (r *printers) counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.of)
}

// line returns a line that is too long to be sent along with the end of its task.
func line(name string, i int) string {
	return fmt.Sprintf("%s %d %s\n", name, i, strings.Repeat(".", 1000))
}

// printedBy returns the whole output of a task.
func printedBy(args []string) string {
	seconds, _ := strconv.Atoi(args[2])
	var b strings.Builder
	for i := range seconds / 10 {
		b.WriteString(line(args[1], i))
	}
	return b.String()
}

// A program that does not run for a while, as on a laptop with its lid closed, loses nothing. Its
// nodes wait, they keep what ends meanwhile, and other programs do not mistake the pool for one of
// a dead program.
//
// The program is stopped for a third of the lease, as five minutes are of the default lease. This
// is equivalent for the nodes: they know only the lease, which is renewed every quarter of it and
// checked every tenth, so at most 7/12 of it pass without contact. The program itself has timeouts
// in seconds, which only longer stops exceed: GPUTRAIN_SLEEP=5m tests these, under the default
// lease.
func stoppedProgram(t *testing.T) {
	stop := 5 * time.Second
	if s := os.Getenv("GPUTRAIN_SLEEP"); s != "" {
		var err error
		if stop, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	cloud := sim.New(sim.Options{Dir: t.TempDir()})
	defer cloud.Close()
	endpoint, err := cloud.Serve()
	if err != nil {
		t.Fatal(err)
	}
	s := sleeper{Endpoint: endpoint, State: t.TempDir(), Dir: dir, Lease: stop * (defaultLease / fiveMinutes), Stop: stop}
	r := sleepers.Start(t, s)
	for range sleeperSlots {
		r.Await("started")
	}
	stopped := time.Now()
	r.Cmd.Process.Signal(syscall.SIGSTOP)
	e2etest.Until(t, "the stop", func() bool {
		_, state := e2etest.Parent(r.Cmd.Process.Pid)
		return state == "T"
	})
	time.Sleep(stop / 2)
	e2etest.Write(t, filepath.Join(dir, "meanwhile"), nil)
	if gone, err := gputrain.StateDir(s.State).Reap(t.Context(), sim.Config{Cloud: cloud}); err != nil || len(gone) > 0 {
		t.Errorf("reap ended %v, %v", gone, err)
	}
	time.Sleep(stop - time.Since(stopped))
	r.Cmd.Process.Signal(syscall.SIGCONT)
	e2etest.Write(t, filepath.Join(dir, "after"), nil)
	r.Await("well")
	r.Wait()
	for i := range sleeperTasks {
		if n := e2etest.Lines(filepath.Join(dir, fmt.Sprint("ran-", i))); n != 1 {
			t.Errorf("task %d ran %d times", i, n)
		}
	}
	if n := len(cloud.Machines("")); n != 2 {
		t.Errorf("%d machines were launched", n)
	}
	if live := cloud.Live(); len(live) > 0 {
		t.Errorf("these resources are left: %v", live)
	}
}

// A program that is stopped for longer than its lease goes on with its machines, which cannot end themselves: nothing is bought,
// what ended meanwhile is not run again, and what the end of the lease has cut off is. GPUTRAIN_ASLEEP=20m tries it with the
// default lease.
func programThatSleepsTooLong(t *testing.T) {
	s := sleeper{State: t.TempDir(), Dir: t.TempDir(), Lease: 10 * time.Second, Lapses: true}
	if text := os.Getenv("GPUTRAIN_ASLEEP"); text != "" {
		var err error
		if s.Stop, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		s.Lease = defaultLease
	}
	cloud := sim.New(sim.Options{Dir: t.TempDir(), NoSelfDestruct: true})
	defer cloud.Close()
	endpoint, err := cloud.Serve()
	if err != nil {
		t.Fatal(err)
	}
	s.Endpoint = endpoint
	r := sleepers.Start(t, s)
	var started []string // the function may be one of them
	for range sleeperSlots {
		started = append(started, r.Await("started"))
	}
	stopped := time.Now()
	r.Cmd.Process.Signal(syscall.SIGSTOP)
	e2etest.Write(t, filepath.Join(s.Dir, "meanwhile"), nil)
	for i := 1; i < sleeperTasks; i += 2 {
		if !slices.Contains(started, fmt.Sprint("script ", i)) {
			continue
		}
		for !e2etest.Exists(filepath.Join(s.Dir, fmt.Sprint("cut-", i))) { // or the test's own time is over
			time.Sleep(50 * time.Millisecond)
		}
	}
	time.Sleep(s.Stop - time.Since(stopped))
	r.Cmd.Process.Signal(syscall.SIGCONT)
	e2etest.Write(t, filepath.Join(s.Dir, "after"), nil)
	r.Await("well")
	r.Wait()
	for i := range sleeperTasks {
		file := func(what string) int { return e2etest.Lines(filepath.Join(s.Dir, fmt.Sprint(what, "-", i))) }
		if ran, cut, over := file("ran"), file("cut"), file("over"); over != 1 || ran != 1+cut {
			t.Errorf("task %d ran %d times, was cut off %d times, and has ended %d times", i, ran, cut, over)
		}
	}
	if n := len(cloud.Machines("")); n != 2 {
		t.Errorf("%d machines were launched", n)
	}
	if live := cloud.Live(); len(live) > 0 {
		t.Errorf("these resources are left: %v", live)
	}
}
