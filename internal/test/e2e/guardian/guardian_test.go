//go:build linux

package guardian

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/guardian"
	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/seeds"
	"github.com/gputrain/gputrain/internal/test/sidebyside"
	"github.com/gputrain/gputrain/providers/sim"
)

// lease is the shortest. A guardian acts when it is over, and a third of it.
const lease = 5 * time.Second

// token is the credential of the clouds, which no argument and no file may have.
const token = "guardian-test-token"

// guarded is a program that opens a pool, says so, and then waits, or opens more until it is killed.
type guarded struct {
	Endpoint, State  string
	Restless         bool // opens pools and closes them
	Declines         bool
	HoldsLease       bool // runs a task that does, in a pool with a TTL
	Group            bool // rents in two accounts
	Closes, Attaches bool
	Detaches         bool // and lives on
	Lease            time.Duration
}

func (p guarded) provider() gputrain.Provider {
	cloud := sim.Config{Endpoint: p.Endpoint, Token: token}
	if !p.Group {
		return cloud
	}
	other := cloud
	other.Account = "other"
	return gputrain.Cheapest(cloud, other)
}

var guardedPrograms = e2etest.NewRole("guarded", func(p guarded) error {
	opts := []gputrain.Option{
		gputrain.WithStateDir(p.State), gputrain.WithResultsDir(p.State), gputrain.WithName("guarded"),
		gputrain.WithEvents(func(ev gputrain.Event) {
			if ev.State == "guardian" {
				e2etest.Say("guardian %v", ev.Err)
			}
		}),
	}
	if p.Declines {
		opts = append(opts, gputrain.WithoutGuardian())
	}
	for seed := uint64(0); ; seed++ {
		rng := rand.New(rand.NewPCG(seed, uint64(os.Getpid())))
		spec := gputrain.Spec{Nodes: 1, Lease: p.Lease}
		if p.Restless {
			spec.Nodes += rng.IntN(4)
		}
		if p.HoldsLease {
			spec.TTL = 15 * time.Second
		}
		var pool *gputrain.Compute
		var err error
		if p.Attaches {
			pool, err = gputrain.Attach(context.Background(), p.provider(), "guarded", opts...)
		} else {
			pool, err = gputrain.Open(context.Background(), p.provider(), spec, opts...)
		}
		switch {
		case err != nil && p.Restless:
			continue
		case err != nil:
			return err
		case p.Restless:
			pool.Gather(gputrain.Cmd("sleep", "10ms"), gputrain.Cmd("sleep", fmt.Sprint(rng.IntN(1000), "ms")))
			pool.Close()
			continue
		case p.Closes:
			err := pool.Close()
			e2etest.Say("closed %v", err)
			select {}
		case p.Detaches:
			for range 2 {
				_, err := pool.Detach()
				e2etest.Say("detached %v", err)
			}
			select {}
		case p.HoldsLease:
			pool.Start(gputrain.Task{Args: []string{"sleep", "10m"}, HoldsLease: true})
		}
		e2etest.Say("open")
		select {}
	}
})

// A rig is a cloud whose machines cannot end themselves, and a state directory.
type rig struct {
	*sim.Cloud
	program guarded
}

func newRig(t *testing.T, o sim.Options) *rig {
	o.NoSelfDestruct, o.Token, o.Exec = true, token, e2etest.Words
	cloud := sim.New(o)
	t.Cleanup(func() { cloud.Close() })
	endpoint, err := cloud.Serve()
	if err != nil {
		t.Fatal(err)
	}
	return &rig{cloud, guarded{Endpoint: endpoint, State: t.TempDir(), Lease: lease}}
}

// gone waits until nothing of a state directory's pools is left, other than things of the pool to spare.
func (r *rig) gone(t *testing.T, spare string) {
	t.Helper()
	if e2etest.Settles(func() bool {
		for _, res := range r.Live() {
			if res.Pool != spare {
				return false
			}
		}
		pools, err := gputrain.StateDir(r.program.State).Pools()
		return err == nil && len(pools) == 0
	}) {
		return
	}
	pools, err := gputrain.StateDir(r.program.State).Pools()
	t.Errorf("left: %+v, of the pools %+v, %v", r.Live(), pools, err)
	for _, call := range r.Log() {
		t.Log(call)
	}
}

// guardians returns the guardians that a child has started and that run.
func guardians(c *e2etest.Child) (pids []string) {
	for _, p := range e2etest.ProcessesWith("TMPDIR=" + c.Tmp) {
		pid, _, _ := strings.Cut(p, " ")
		env, _ := os.ReadFile("/proc/" + pid + "/environ")
		if bytes.Contains(env, []byte(guardian.Env+"=1")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func noGuardians(t *testing.T, c *e2etest.Child) {
	t.Helper()
	e2etest.Until(t, "the end of its guardians", func() bool { return len(guardians(c)) == 0 })
}

// killOne kills a program at a random moment, and does not call Reap. After the lease the program's guardian ends the pool. It
// touches no living pool.
func killOne(t *testing.T, seed uint64, turn chan bool) {
	rng := rand.New(rand.NewPCG(seed, 4))
	r := newRig(t, sim.Options{
		Seed: seed, BootTime: 20 * time.Millisecond, BootJitter: 50 * time.Millisecond, Latency: 2 * time.Millisecond, ListLag: 100 * time.Millisecond,
	})
	living, err := gputrain.Open(t.Context(), r.program.provider(), gputrain.Spec{Lease: lease}, gputrain.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer living.Close()
	before := len(r.Log())
	r.Inject(sim.Random(seed, 0.2*rng.Float64(), sim.ErrorBefore, sim.ErrorAfter, sim.Lost, sim.Unavailable, sim.Garbage, sim.Partial, sim.Lag))
	r.program.Restless, r.program.Group = true, rng.IntN(3) == 0
	turn <- true
	c := guardedPrograms.Start(t, r.program)
	e2etest.Until(t, "its first calls", func() bool { return len(r.Log()) > before+2 })
	time.Sleep(time.Duration(rng.Int64N(int64(1500 * time.Millisecond))))
	c.Kill()
	<-turn
	if end := c.Cmd.ProcessState.String(); end != "signal: killed" {
		t.Fatalf("the program ended by itself: %s\n%s", end, c.Log.String())
	}
	r.Calm()
	r.gone(t, living.ID())
	noGuardians(t, c)
	if doubles := r.Doubles(); len(doubles) > 0 {
		t.Errorf("two machines of one name: %v", doubles)
	}
	if res, err := living.Run(gputrain.Cmd("echo", "here")); err != nil || string(res.Stdout) != "here\n" {
		t.Errorf("the living pool: %q, %v", res.Stdout, err)
	}
}

// TestGuardians has programs that end in many ways, and programs that are killed at random moments.
//
// GPUTRAIN_GUARDIANS sets the seeds of the latter: their number, or the first and the last.
func TestGuardians(t *testing.T) {
	kills := 8
	if testing.Short() {
		kills = 1
	}
	firstSeed, kills := seeds.FromEnv(t, "GPUTRAIN_GUARDIANS", kills)
	turn := make(chan bool, 2) // limits the number of programs at a time
	var tests []sidebyside.Test
	for seed := firstSeed; seed < firstSeed+uint64(kills); seed++ {
		tests = append(tests, sidebyside.Test{Name: fmt.Sprint("Seed", seed), Run: func(t *testing.T) { killOne(t, seed, turn) }})
	}
	tests = append(tests, []sidebyside.Test{
		{Name: "Attached", Run: attached},
		{Name: "HeldLease", Run: heldLease},
		{Name: "Terminated", Run: func(t *testing.T) {
			endedBy(t, func(c *e2etest.Child, _ guarded) { c.Cmd.Process.Signal(syscall.SIGTERM) })
		}},
		{Name: "NotBeforeTheLeaseIsOver", Run: notBeforeTheLease},
		{Name: "Declined", Run: declined},
		{Name: "Closed", Run: closed},
		{Name: "Closing", Run: closing},
		{Name: "Detached", Run: detached},
		{Name: "DetachedWithoutGuardian", Run: detachedWithoutGuardian},
		{Name: "Killed", Run: killed},
		{Name: "NoInit", Run: noInit},
	}...)
	sidebyside.Run(t, kills+4, tests) // the seeds mostly wait
}

// endedBy ends a program with a pool, and waits for its guardian to end the pool.
func endedBy(t *testing.T, end func(*e2etest.Child, guarded)) *rig {
	r := newRig(t, sim.Options{})
	c := guardedPrograms.Start(t, r.program)
	if err := c.Await("guardian "); err != "<nil>" {
		t.Fatal(err)
	}
	c.Await("open")
	if n := len(guardians(c)); n != 1 {
		t.Errorf("there are %d guardians", n)
	}
	end(c, r.program)
	c.Wait()
	r.gone(t, "")
	noGuardians(t, c)
	return r
}

// Nothing is ended within the lease, in which Attach may come. No argument and no file has the credential.
func notBeforeTheLease(t *testing.T) {
	var lapses time.Time
	r := endedBy(t, func(c *e2etest.Child, r guarded) {
		pid := guardians(c)[0]
		if args, err := os.ReadFile("/proc/" + pid + "/cmdline"); err != nil || bytes.Contains(args, []byte(token)) || bytes.Count(args, []byte{0}) != 1 {
			t.Errorf("its arguments are %q, %v", args, err)
		}
		if _, session := session(pid); session != pid {
			t.Errorf("it is in session %s, and no leader of one", session)
		}
		for fd := range 3 {
			if to, _ := os.Readlink(fmt.Sprintf("/proc/%s/fd/%d", pid, fd)); fd < 2 != strings.HasPrefix(to, "pipe:") {
				t.Errorf("its file %d is %s", fd, to)
			}
		}
		for _, dir := range []string{c.Tmp, r.State} {
			for _, name := range e2etest.Tree(dir) {
				if text, _ := os.ReadFile(filepath.Join(dir, name)); bytes.Contains(text, []byte(token)) {
					t.Errorf("%s has the credential", name)
				}
			}
		}
		lapses = lapse(t, r)
		c.Kill()
	})
	for _, call := range r.Log() {
		if call.Op == sim.OpTerminate && call.Time.Before(lapses) {
			t.Errorf("a machine is terminated %v before the lease is over", lapses.Sub(call.Time))
		}
	}
}

// lapse returns when a program's pool may be ended if the program does not renew its lease any more.
func lapse(t *testing.T, p guarded) time.Time {
	t.Helper()
	dir, err := ledger.OpenDir(p.State)
	if err != nil {
		t.Fatal(err)
	}
	pools, err := dir.Pools()
	if err != nil || len(pools) != 1 {
		t.Fatal(pools, err)
	}
	snap, err := dir.Read(pools[0])
	if err != nil {
		t.Fatal(err)
	}
	return snap.Last.Add(p.Lease + p.Lease/3)
}

func session(pid string) (group, session string) {
	stat, _ := os.ReadFile("/proc/" + pid + "/stat")
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return fields[2], fields[3]
}

// A pool that is closed leaves no guardian, while its program goes on.
func closed(t *testing.T) {
	r := newRig(t, sim.Options{})
	r.program.Closes = true
	c := guardedPrograms.Start(t, r.program)
	if err := c.Await("closed "); err != "<nil>" {
		t.Error(err)
	}
	if left := guardians(c); len(left) > 0 {
		t.Errorf("the guardian %v is left", left)
	}
}

// The guardian of a pool that its program has left, and outlives, ends the pool after its lease.
func detached(t *testing.T) {
	r := newRig(t, sim.Options{})
	r.program.Detaches = true
	c := guardedPrograms.Start(t, r.program)
	for range 2 {
		if err := c.Await("detached "); err != "<nil>" {
			t.Errorf("with a guardian: %s", err)
		}
	}
	left := time.Now()
	r.gone(t, "")
	for _, call := range r.Log() {
		if early := call.Time.Sub(left); call.Op == sim.OpTerminate && early < lease/2 {
			t.Errorf("a machine is terminated %v after the program has left the pool; the lease is %v", early, lease)
		}
	}
	noGuardians(t, c)
}

// Without a guardian the first Detach is refused. The second one leaves the pool to Guard.
func detachedWithoutGuardian(t *testing.T) {
	r := newRig(t, sim.Options{})
	r.program.Detaches, r.program.Declines = true, true
	c := guardedPrograms.Start(t, r.program)
	if err := c.Await("detached "); !strings.Contains(err, "sim: detach: not supported: ") || !strings.Contains(err, "cannot end itself, and there is no guardian") {
		t.Errorf("the first call: %s", err)
	}
	if err := c.Await("detached "); err != "<nil>" {
		t.Errorf("the second call: %s", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ended, err := range gputrain.StateDir(r.program.State).Guard(ctx, 100*time.Millisecond, r.program.provider()) {
		if err != nil {
			t.Error(err)
		}
		if len(ended) > 0 {
			break
		}
	}
	r.gone(t, "")
}

// A program that attaches to the pool has a guardian of its own, and the dead program's guardian leaves the pool to it.
func attached(t *testing.T) {
	r := newRig(t, sim.Options{})
	r.program.Lease = 2 * lease // in which the second program must come
	first := guardedPrograms.Start(t, r.program)
	first.Await("open")
	first.Kill()
	r.program.Attaches = true
	second := guardedPrograms.Start(t, r.program)
	second.Await("open")
	noGuardians(t, first)
	if n := len(guardians(second)); n != 1 {
		t.Errorf("there are %d guardians", n)
	}
	time.Sleep(3 * r.program.Lease / 2)
	if pools, err := gputrain.StateDir(r.program.State).Pools(); err != nil || len(pools) != 1 || pools[0].State != gputrain.PoolOpen || len(r.Live()) == 0 {
		t.Errorf("the pool is %+v, %v", pools, err)
	}
	second.Kill()
	r.gone(t, "")
	noGuardians(t, second)
}

// Without a guardian, Guard of another process ends the pool, and not before the lease is over.
func declined(t *testing.T) {
	r := newRig(t, sim.Options{})
	r.program.Declines = true
	c := guardedPrograms.Start(t, r.program)
	c.Await("open")
	if n := len(guardians(c)); n != 0 {
		t.Errorf("there are %d guardians", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var lapses time.Time
	rounds := 0
	for ended, err := range gputrain.StateDir(r.program.State).Guard(ctx, 100*time.Millisecond, r.program.provider()) {
		if err != nil {
			t.Error(err)
		}
		if rounds++; rounds == 3 {
			lapses = lapse(t, r.program)
			c.Kill()
		}
		if len(ended) == 0 {
			continue
		}
		if early := time.Until(lapses); lapses.IsZero() || early > 0 {
			t.Errorf("ended in round %d, %v before the lease is over", rounds, early)
		}
		break
	}
	r.gone(t, "")
}

// The end of the guardian does its pool no harm.
func killed(t *testing.T) {
	r := newRig(t, sim.Options{})
	p, err := gputrain.Open(t.Context(), r.program.provider(), gputrain.Spec{Lease: lease}, gputrain.WithStateDir(r.program.State))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	found := 0
	for _, process := range e2etest.ProcessesWith(guardian.Env + "=1") {
		var pid int
		fmt.Sscan(process, &pid)
		if parent, _ := e2etest.Parent(pid); parent == os.Getpid() {
			syscall.Kill(pid, syscall.SIGKILL)
			found++
		}
	}
	if found == 0 {
		t.Error("there is no guardian")
	}
	if res, err := p.Run(gputrain.Cmd("echo", "here")); err != nil || string(res.Stdout) != "here\n" {
		t.Errorf("%q, %v", res.Stdout, err)
	}
	if err := p.Close(); err != nil || len(r.Live()) > 0 {
		t.Errorf("%v; left: %v", err, r.Live())
	}
}

// A task that holds the lease keeps its pool until the TTL is over.
func heldLease(t *testing.T) {
	r := newRig(t, sim.Options{})
	r.program.HoldsLease = true
	c := guardedPrograms.Start(t, r.program)
	opened := time.Now()
	c.Await("open")
	time.Sleep(time.Second / 2) // the task begins, and is in the journal
	c.Kill()
	r.gone(t, "")
	if life := time.Since(opened); life < 14*time.Second {
		t.Errorf("the pool has ended after %v; its TTL is 15s, and a task holds the lease of %v", life, lease)
	}
}

// A program that dies while it closes its pool is not waited for: no Attach can take the pool up.
func closing(t *testing.T) {
	r := newRig(t, sim.Options{})
	r.Inject(sim.Fault{Op: sim.OpRelease, Kind: sim.ErrorBefore})
	r.program.Closes, r.program.Lease = true, time.Minute
	c := guardedPrograms.Start(t, r.program)
	e2etest.Until(t, "a release that fails", func() bool {
		return slices.ContainsFunc(r.Log(), func(call sim.Call) bool { return call.Op == sim.OpRelease })
	})
	c.Kill()
	died := time.Now()
	r.Calm()
	r.gone(t, "")
	if took := time.Since(died); took > r.program.Lease {
		t.Errorf("it has taken %v", took)
	}
	noGuardians(t, c)
}

// A program that does not call Init has a pool without a guardian, and is told so.
func noInit(t *testing.T) {
	r := newRig(t, sim.Options{})
	run := exec.Command("go", "run", "./testdata/noinit", r.program.Endpoint)
	run.Env = append(os.Environ(), "TOKEN="+token, "XDG_STATE_HOME="+r.program.State)
	out, err := run.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "true ") || !strings.Contains(string(out), "gputrain.Init()") || !strings.Contains(string(out), "WithoutGuardian") {
		t.Errorf("%v: %s", err, out)
	}
	if n := len(r.Machines("")); n != 1 {
		t.Errorf("%d machines were rented, want that of the pool that declines its guardian", n)
	}
}
