package sim

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/childenv"
	"github.com/gputrain/gputrain/internal/machine"
	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/providers/driver"
)

// An Exec runs a task of a machine. Its result is the exit status; -n means that signal n ended
// the task. ctx ends when the task must end, because it was cancelled or its machine is gone:
// later effects of an Exec are ignored.
//
// It runs only commands and scripts. Functions and copying files need machines with real
// processes.
type Exec func(ctx context.Context, cmd Command) int

// A Command is a task on a machine.
type Command struct {
	// Args are the command and its arguments. If the task is a script, Script is its text and
	// Args is its interpreter.
	Args   []string
	Script string
	// Env is the task's environment, as "NAME=value".
	Env []string
	// Dir is the name of the working directory.
	Dir            string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Pool, Rank, ID and Name are the machine's. Task identifies the attempt.
	Pool     string
	Rank     int
	ID, Name string
	Task     string
}

// Getenv returns a variable of the task's environment, or "".
func (c Command) Getenv(name string) string {
	for i := len(c.Env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(c.Env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// A node holds the parts of a running machine.
type node struct {
	*machine.Machine
	user   string
	sim    *simnode.Node // with Options.Exec
	endSim func()        // ends sim at once
}

// homeMark marks a home as a machine's. homeEnv marks the machine's processes.
const (
	homeMark = ".gputrain-sim"
	homeEnv  = "GPUTRAIN_SIM_HOME"
)

// startNode starts the parts of a machine. mu is held.
func (f *fleet) startNode(m *instance) (*node, error) {
	n := &node{user: "sim"}
	cfg := machine.Config{Name: m.inst.ID, HostKey: string(m.hostKey.Private), AuthorizedKey: m.pool.AuthorizedKey}
	if f.opts.Exec != nil {
		n.sim = simnode.New(f.simConfig(m))
		cfg.Run = n.sim.Run
		n.endSim = sync.OnceFunc(func() {
			n.SetReachable(false)
			n.sim.End()
			f.life.wg.Go(n.Close) // it waits for functions of tasks; only Cloud.Close waits for them
		})
	} else {
		home, err := makeHome(f.opts.Dir)
		if err != nil {
			return nil, err
		}
		if login, err := machine.LoginName(); err == nil {
			n.user = login
		}
		cfg.Home, cfg.Env, cfg.Mark = home, childenv.Of(loginEnv), homeEnv+"="+string(home)
	}
	var err error
	if n.Machine, err = machine.New(cfg); err != nil {
		if cfg.Home != "" {
			cfg.Home.Remove()
		}
		return nil, err
	}
	if cfg.Home != "" {
		f.life.wg.Go(func() { f.watchHome(m, n) })
	}
	return n, nil
}

// simConfig returns the configuration of a node that runs Options.Exec.
func (f *fleet) simConfig(m *instance) simnode.Config {
	o := m.inst.Offer
	cfg := simnode.Config{
		Addr: m.inst.PrivateAddr,
		CPUs: int(o.VCPUs), MemoryBytes: int64(o.MemoryGiB * (1 << 30)), DiskBytes: int64(o.DiskGiB * (1 << 30)),
		Lapsed: func(string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			m.end(driver.InstanceTerminated, "its lease or TTL ran out", byMachine)
		},
	}
	if f.opts.Load != nil {
		cfg.Load = func(device int) float64 { return f.opts.Load(m.inst.ID, device) }
	}
	if f.opts.Clock != nil {
		cfg.Clock = func(device int) float64 { return f.opts.Clock(m.inst.ID, device) }
	}
	for i := range int(o.Accelerator.Count) {
		g := simnode.GPU{Name: o.Accelerator.Name, UUID: fmt.Sprintf("GPU-%s-%d", m.inst.ID, i), MemoryMiB: int(o.Accelerator.MemoryGiB * 1024)}
		if m.other {
			g.Name, g.MemoryMiB = "Tesla K80", 11441
		}
		cfg.GPUs = append(cfg.GPUs, g)
	}
	at := Command{Pool: m.pool.ID, Rank: m.inst.Rank, ID: m.inst.ID, Name: m.inst.Name}
	cfg.Exec = func(ctx context.Context, cmd simnode.Command) int {
		run := at
		run.Task, run.Args, run.Env, run.Dir = cmd.ID, cmd.Args, cmd.Env, cmd.Dir
		run.Stdin, run.Stdout, run.Stderr = cmd.Stdin, cmd.Stdout, cmd.Stderr
		if len(run.Args) == 3 && run.Args[0] == "sh" && run.Args[1] == "-c" {
			run.Script = run.Args[2]
		}
		return f.opts.Exec(ctx, run)
	}
	return cfg
}

// endAll ends machines at the same time. It may be called again.
func endAll(nodes []*node) {
	var real []*machine.Machine
	var all sync.WaitGroup
	for _, n := range nodes {
		switch {
		case n.sim != nil:
			all.Go(n.endSim)
		case n.Home().Has(homeMark): // else it is gone already
			real = append(real, n.Machine)
		default:
			all.Go(n.Close)
		}
	}
	_ = machine.End(context.Background(), real...) // wait reports what is left
	all.Wait()
}

// wait returns once nothing of an ended machine is left.
func (n *node) wait() error {
	if n.sim != nil {
		n.Close()
		n.sim.Wait()
		return nil
	}
	if n.Home().Exists() {
		return fmt.Errorf("the home of a machine cannot be removed: %s", n.Home())
	}
	return nil
}

// publish returns the address at which other programs reach the machine.
func (n *node) publish() (string, error) { return n.Listen("127.0.0.1:0") }

func makeHome(dir string) (machine.Home, error) {
	path, err := os.MkdirTemp(dir, "gputrain-sim-")
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	home := machine.Home(path)
	return home, home.Write(homeMark, nil)
}

// loginEnv are the variables of this program's environment that a machine sees.
var loginEnv = []string{"PATH", "TMPDIR", "LANG", "TZ"}

// selfDestruct ends the machine whose home is HOME, if that is a machine's.
var selfDestruct = machine.SelfDestruct(`h=$HOME
[ -e "$h/`+homeMark+`" ] || exit 0`, homeEnv+"=$h", "", "$h")

// homePause is the time between two checks whether a machine has ended itself.
const homePause = 50 * time.Millisecond

// watchHome ends a machine that has removed its home: that is how a machine ends itself.
func (f *fleet) watchHome(m *instance, n *node) {
	tick := time.NewTicker(homePause)
	defer tick.Stop()
	for {
		select {
		case <-f.life.ctx.Done():
			return
		case <-tick.C:
		}
		there := n.Home().Exists()
		f.mu.Lock()
		live := m.exists()
		gone := live && !there && m.inst.State == driver.InstanceRunning
		if gone {
			m.end(driver.InstanceTerminated, "its lease or TTL ran out", byMachine)
		}
		f.mu.Unlock()
		if gone || !live {
			return
		}
	}
}
