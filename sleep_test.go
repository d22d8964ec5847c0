//go:build unix

package gputrain_test

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
	"github.com/gputrain/gputrain/providers/sim"
)

// fiveMinutes is how long a laptop may be asleep, or its network away, under the
// default lease.
const fiveMinutes = 5 * time.Minute

// Five minutes without a network, neither to the nodes nor to the cloud, lose nothing
// under the default lease, whether connections are cut or nothing passes: not even
// where that begins just before the lease is to be renewed, as it is every quarter of it.
func TestFiveMinutesOffline(t *testing.T) {
	ways := map[string]func(c *simCloud, a *air, away bool){
		"cut": func(c *simCloud, _ *air, away bool) {
			c.Cut(away)
			if away {
				c.Outage(time.Now(), fiveMinutes)
			}
		},
		"silent": func(c *simCloud, a *air, away bool) {
			a.still(away)
			if c.Calm(); away {
				c.Inject(sim.Fault{Kind: sim.Delay, For: fiveMinutes})
			}
		},
	}
	begin := gputrain.DefaultLease/4 - time.Second
	for name, set := range ways {
		for _, nodes := range []int{1, 3} {
			t.Run(fmt.Sprint(name, ", ", nodes), func(t *testing.T) {
				var ran printers
				inCloud(t, sim.Options{Exec: ran.exec}, func(t *testing.T, c *simCloud) {
					offline(t, c, &ran, nodes, begin, set)
				})
			})
		}
	}
}

func offline(t *testing.T, c *simCloud, ran *printers, nodes int, begin time.Duration, set func(*simCloud, *air, bool)) {
	a := newAir()
	p, err := gputrain.Open(t.Context(), throughAir{sim.Config{Cloud: c.Cloud}, a}, gputrain.Spec{Nodes: nodes, Concurrency: 3},
		gputrain.WithStateDir(c.state), gputrain.WithEvents(c.tell))
	if err != nil {
		t.Fatal(err)
	}
	c.pools = append(c.pools, p)
	before := alive(t, p)

	// Some end before, some meanwhile, some after it, and some begin then.
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
	if after := alive(t, p); !slices.Equal(after, before) || c.launches() != nodes || !allReady(p) {
		t.Errorf("nodes %v became %v, of %d machines", before, after, c.launches())
	}
	for _, e := range c.events() {
		if e.Kind == gputrain.EventRetry || e.State == gputrain.NodeLost.String() || e.State == gputrain.NodeFailed.String() {
			t.Errorf("%v: node %d %s %s: %v", e.Kind, e.Node, e.State, e.Task, e.Err)
		}
	}
	c.end(t, p)
}

// A call that hangs for five minutes says more of this program than of the cloud: it
// is made again for as long as if it had failed at once.
func TestFiveMinutesOfflineWhileOpening(t *testing.T) {
	inCloud(t, sim.Options{}, func(t *testing.T, c *simCloud) {
		a := newAir()
		a.still(true)
		time.AfterFunc(fiveMinutes, func() {
			c.Outage(time.Now(), 10*time.Second) // it takes a moment to be back
			a.still(false)
		})
		p, err := gputrain.Open(t.Context(), throughAir{sim.Config{Cloud: c.Cloud}, a}, gputrain.Spec{Nodes: 2}, gputrain.WithStateDir(c.state))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Broadcast(gputrain.Cmd("rank")); err != nil || c.launches() != 2 {
			t.Errorf("%d machines, %v", c.launches(), err)
		}
		c.end(t, p)
	})
}

// printers run tasks that print a line every ten seconds, and count how often each ran.
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

// line is one that is too long for the end of its task to bring it.
func line(name string, i int) string {
	return fmt.Sprintf("%s %d %s\n", name, i, strings.Repeat(".", 1000))
}

// printedBy is what one of the printers prints.
func printedBy(args []string) string {
	seconds, _ := strconv.Atoi(args[2])
	var b strings.Builder
	for i := range seconds / 10 {
		b.WriteString(line(args[1], i))
	}
	return b.String()
}

// A program that really does not run for a while, as on a laptop whose lid is closed,
// loses nothing: its nodes wait, what ends meanwhile is kept there, and no other
// program takes the pool for a dead one's.
//
// It is stopped for a third of the lease, as five minutes are of the default one. To
// the nodes that is the same: the lease is all that they go by, renewed every quarter
// of it and looked after every tenth, and so at most 7/12 of it pass unheard. The
// program has patiences of its own, in seconds, that only longer stops exceed:
// GPUTRAIN_SLEEP=5m is the real thing, under the default lease.
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
	s := sleeper{Endpoint: endpoint, State: t.TempDir(), Dir: dir, Lease: stop * (gputrain.DefaultLease / fiveMinutes), Stop: stop}
	r := sleepers.start(t, s)
	for range sleeperSlots {
		r.await("started")
	}
	stopped := time.Now()
	r.cmd.Process.Signal(syscall.SIGSTOP)
	until(t, "the stop", func() bool {
		_, state := parent(r.cmd.Process.Pid)
		return state == "T"
	})
	time.Sleep(stop / 2)
	write(t, filepath.Join(dir, "meanwhile"), nil)
	if gone, err := gputrain.StateDir(s.State).Reap(t.Context(), sim.Config{Cloud: cloud}); err != nil || len(gone) > 0 {
		t.Errorf("reap ended %v, %v", gone, err)
	}
	time.Sleep(stop - time.Since(stopped))
	r.cmd.Process.Signal(syscall.SIGCONT)
	write(t, filepath.Join(dir, "after"), nil)
	r.await("well")
	r.wait()
	for i := range sleeperTasks {
		if n := lines(filepath.Join(dir, fmt.Sprint("ran-", i))); n != 1 {
			t.Errorf("task %d ran %d times", i, n)
		}
	}
	if n := len(cloud.Machines("")); n != 2 {
		t.Errorf("%d machines were launched", n)
	}
	if live := cloud.Live(); len(live) > 0 {
		t.Errorf("left: %v", live)
	}
}
