package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/childenv"
	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/internal/sshd"
)

// An Exec runs a task of a machine. Its result is the exit status; -n says that
// signal n has ended the task. ctx ends when the task is to end, because it was
// cancelled or its machine is gone: who goes on after that is not listened to.
//
// Only tasks come here, commands and scripts. Functions and copying files need
// machines with real processes.
type Exec func(ctx context.Context, cmd Command) int

// A Command is a task on a machine.
type Command struct {
	// Args are the command and its arguments. Script is the text where the task is
	// a script, and Args is what runs it.
	Args   []string
	Script string
	// Env is the task's environment, as "NAME=value".
	Env []string
	// Dir is where it runs: a name only.
	Dir            string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Pool, Rank, ID and Name are the machine's. Task names the attempt.
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

// A node is what a machine consists of while it runs.
type node struct {
	server        *sshd.Server
	user, hostKey string
	sim           *simnode.Node // with Options.Exec
	home          string        // otherwise
	ending        func()

	mu        sync.Mutex
	unplugged bool
	listener  net.Listener // once it was published
	accepting sync.WaitGroup
}

// homeMark, in a home, says that it is one, and homeEnv marks the processes.
const (
	homeMark = ".gputrain-sim"
	homeEnv  = "GPUTRAIN_SIM_HOME"
)

// startNode makes what a machine consists of. c.mu is held.
func (c *Cloud) startNode(m *machine) (*node, error) {
	host, public, clients, err := sshd.Keys(string(m.hostKey.Private), m.pool.AuthorizedKey)
	if err != nil {
		return nil, err
	}
	n := &node{hostKey: public, user: "sim"}
	cfg := sshd.Config{HostKey: host, AuthorizedKeys: clients}
	if c.opts.Exec != nil {
		n.sim = simnode.New(c.simConfig(m))
		cfg.Run = n.sim.Run
		n.ending = sync.OnceFunc(func() {
			n.server.HangUp()
			n.sim.End()
			c.wg.Go(func() { n.server.Close() })
		})
	} else {
		if n.home, err = makeHome(c.opts.Dir); err != nil {
			return nil, err
		}
		if u, err := user.Current(); err == nil {
			n.user = u.Username
		}
		cfg.Dir = n.home
		cfg.Env = append(loginEnv(), homeEnv+"="+n.home)
		n.ending = sync.OnceFunc(func() { n.server.Close() })
	}
	if n.server, err = sshd.New(cfg); err != nil {
		os.RemoveAll(n.home)
		return nil, err
	}
	if n.home != "" {
		c.wg.Go(func() { c.watchHome(m, n) })
	}
	return n, nil
}

// simConfig is how Options.Exec becomes a node.
func (c *Cloud) simConfig(m *machine) simnode.Config {
	o := m.inst.Offer
	cfg := simnode.Config{
		CPUs: int(o.VCPUs), MemoryBytes: int64(o.MemoryGiB * (1 << 30)), DiskBytes: int64(o.DiskGiB * (1 << 30)),
		Lapsed: func(string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			m.end(gputrain.InstanceTerminated, "its lease or TTL ran out", byMachine)
		},
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
		return c.opts.Exec(ctx, run)
	}
	return cfg
}

// endAll ends everything on machines, at the same time. It may be called again.
func endAll(nodes []*node) {
	homes := map[string]bool{}
	var all sync.WaitGroup
	for _, n := range nodes {
		if n.home != "" {
			homes[n.home] = true
		}
		all.Go(n.end)
	}
	all.Wait()
	removeHomes(homes)
}

// end ends the server, with what it runs.
func (n *node) end() {
	n.mu.Lock()
	if n.listener != nil {
		n.listener.Close()
	}
	n.mu.Unlock()
	n.ending()
	n.accepting.Wait()
}

// wait returns when nothing of an ended machine is left.
func (n *node) wait() error {
	if n.sim != nil {
		n.server.Close()
		n.sim.Wait()
		return nil
	}
	if _, err := os.Lstat(n.home); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the home of a machine cannot be removed: %s", n.home)
	}
	return nil
}

// dial connects in memory.
func (n *node) dial() (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unplugged {
		return nil, errors.New("connection refused: the machine is cut off")
	}
	return n.server.Dial()
}

// unplug cuts the machine's network off, or plugs it in again.
func (n *node) unplug(off bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unplugged = off
	if off {
		n.server.HangUp()
	}
}

// publish returns the address at which other programs reach the machine.
func (n *node) publish() (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listener == nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		n.listener = l
		n.accepting.Go(func() { n.accept(l) })
	}
	return n.listener.Addr().String(), nil
}

func (n *node) accept(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		n.mu.Lock()
		off := n.unplugged
		n.mu.Unlock()
		if off {
			nc.Close()
			continue
		}
		n.accepting.Go(func() { n.server.ServeConn(nc) })
	}
}

func makeHome(dir string) (string, error) {
	home, err := os.MkdirTemp(dir, "gputrain-sim-")
	if err != nil {
		return "", err
	}
	if home, err = filepath.Abs(home); err != nil {
		return "", err
	}
	return home, os.WriteFile(filepath.Join(home, homeMark), nil, 0o600)
}

// loginEnv is what a machine sees of this program's environment.
func loginEnv() []string {
	var env []string
	for _, name := range []string{"PATH", "TMPDIR", "LANG", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// selfDestruct ends the machine whose home is $1, or else HOME: what this user runs
// with its mark and is not above this script itself, then the home. Where there is no
// /proc, as on macOS, it leaves processes to its caller.
const selfDestruct = `h=${1:-$HOME}
[ -e "$h/` + homeMark + `" ] || exit 0
n=0 hit=1
while [ "$hit" = 1 ] && [ "$n" -lt 100 ]; do
	hit=0 n=$((n + 1))
	for f in $(grep -lsF "` + homeEnv + `=$h" /proc/[0-9]*/environ); do
		p=${f#/proc/} p=${p%/environ}
		[ "$p" != "$$" ] && [ "$p" != "$PPID" ] && [ -O "$f" ] &&
		{ tr '\0' '\n' <"$f" | grep -qxF "` + homeEnv + `=$h"; } 2>/dev/null &&
		kill -KILL "$p" 2>/dev/null && hit=1
	done
done
` + openFolders + `cd / && rm -rf -- "$h"`

// openFolders has the folders of a home be such that they can be removed.
const openFolders = `h=${1:-$HOME}
find "$h" -type d ! -perm -700 -exec chmod u+rwx {} \; 2>/dev/null
`

// removeHomes ends what the servers have not, and removes the homes.
func removeHomes(homes map[string]bool) {
	for home := range homes {
		if _, err := os.Lstat(filepath.Join(home, homeMark)); err != nil {
			delete(homes, home) // it is gone already
		}
	}
	if len(homes) == 0 {
		return
	}
	killProcesses(homes)
	for home := range homes {
		if os.RemoveAll(home) == nil {
			continue
		}
		cmd := exec.Command("sh", "-c", openFolders+`rm -rf -- "$h"`, "sh", home)
		cmd.Env = childenv.Of(childenv.System)
		_ = cmd.Run() // wait says what is left
	}
}

// homePause is how often the cloud looks whether a machine has ended itself.
const homePause = 50 * time.Millisecond

// watchHome ends a machine that has removed its home, which is all that it can do
// itself.
func (c *Cloud) watchHome(m *machine, n *node) {
	tick := time.NewTicker(homePause)
	defer tick.Stop()
	for {
		select {
		case <-c.life.Done():
			return
		case <-tick.C:
		}
		_, err := os.Lstat(n.home)
		c.mu.Lock()
		live := m.exists()
		gone := live && errors.Is(err, os.ErrNotExist) && m.inst.State == gputrain.InstanceRunning
		if gone {
			m.end(gputrain.InstanceTerminated, "its lease or TTL ran out", byMachine)
		}
		c.mu.Unlock()
		if gone || !live {
			return
		}
	}
}
