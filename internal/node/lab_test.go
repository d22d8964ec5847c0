package node

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/machine"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/providers/driver"
)

// A cloud is a driver with one machine, which runs in this program.
type cloud struct {
	driver.Driver // nothing else of it is called
	scripts       driver.Scripts

	mu        sync.Mutex
	machine   *machine.Machine
	inst      driver.Instance
	err       error // of Describe
	described int
}

func (c *cloud) Scripts(driver.Instance) driver.Scripts { return c.scripts }

func (c *cloud) Dial(context.Context, driver.Instance) (net.Conn, error) { return c.machine.Dial() }

func (c *cloud) Describe(_ context.Context, ids ...string) (found []driver.Instance, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.described++
	if slices.Contains(ids, c.inst.ID) && c.err == nil {
		found = append(found, c.inst)
	}
	return found, c.err
}

// set changes how the machine is described from now on.
func (c *cloud) set(change func(inst *driver.Instance), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err = err; change != nil {
		change(&c.inst)
	}
}

// A lab is a pool's program with one node, and that node's machine.
type lab struct {
	t        *testing.T
	cloud    *cloud
	settings *Settings
	answers  map[string]string // by command: what the machine prints, beside tasks
	node     *Node
	sim      *simnode.Node

	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu        sync.Mutex
	calls     []string // of the owner
	folder    string   // of Leased
	joined    chan struct{}
	over      chan struct{} // closed by Failed
	err       error         // of Failed
	resumed   bool          // what Resume returns
	offline   bool
	takenOver bool
	notice    time.Time
	moved     [2]int64
}

// newLab makes a machine, and a node that will run on it.
func newLab(t *testing.T, cfg simnode.Config) *lab {
	t.Helper()
	login, err := ssh.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, cloud: &cloud{}, answers: map[string]string{}, joined: make(chan struct{}), over: make(chan struct{})}
	l.sim = simnode.New(cfg)
	l.cloud.machine, err = machine.New(machine.Config{Name: "m", AuthorizedKey: login.Public, Run: func(ctx context.Context, p sshd.Program) int {
		if answer, ok := l.answers[p.Command]; ok {
			io.WriteString(p.Stdout, answer)
			return 0
		}
		return l.sim.Run(ctx, p)
	}})
	if err != nil {
		t.Fatal(err)
	}
	l.cloud.inst = driver.Instance{
		ID: "i-1", Name: "p-0", State: driver.InstanceRunning, SSH: driver.Endpoint{Addr: "m:22", User: "u", HostKeys: []string{l.cloud.machine.HostKey}},
	}
	l.settings = &Settings{
		Wants: wants{},
		Pool:  "p", Generation: 1, Provider: "acme", Driver: l.cloud, Capabilities: driver.Capabilities{HostKeys: driver.HostKeyPublished, KeepCache: true},
		Login: login, Lease: 15 * time.Minute, Output: output.NewPrinter(nil, nil, false, &output.Redactor{}), Secrets: &output.Redactor{}, Go: l.wg.Go,
	}
	l.begin()
	t.Cleanup(func() {
		l.end()
		l.sim.End()
		l.cloud.machine.Close()
		l.sim.Wait()
	})
	return l
}

// begin starts a program.
func (l *lab) begin() {
	l.ctx, l.cancel = context.WithCancelCause(l.t.Context())
	l.settings.Describer = NewDescriber(l.ctx, l.cloud, l.wg.Go, func([]driver.Instance) {})
	l.node = New(l.ctx, l.settings, l)
	if err := l.node.Prepare(driver.Offer{}, "p-0"); err != nil {
		l.t.Fatal(err)
	}
}

// end ends a program, which leaves its node as it is.
func (l *lab) end() {
	l.cancel(driver.ErrClosed)
	l.wg.Wait()
	l.node.Close()
}

// run launches the machine, and runs the node in the background.
func (l *lab) run() {
	l.node.SetInstance(l.cloud.inst)
	l.wg.Go(func() { l.node.Run(nil) })
}

// ready is run, and waits until the node is ready.
func (l *lab) ready() {
	l.t.Helper()
	l.run()
	select {
	case <-l.joined:
	case <-l.node.Context().Done():
		l.t.Fatalf("the node failed: %v", context.Cause(l.node.Context()))
	}
}

// failed waits until the node has failed, and returns how long that took, and why.
func (l *lab) failed() (time.Duration, error) {
	began := time.Now()
	<-l.over
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(began), l.err
}

func (l *lab) called(call string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, call)
}

func (l *lab) Rank() int      { return 0 }
func (l *lab) WasReady() bool { return false }
func (l *lab) Connecting()    { l.called("connecting") }
func (l *lab) Bootstrapping() { l.called("bootstrapping") }

func (l *lab) Sending() (transfer.Progress, func(error)) { return nil, func(error) {} }

func (l *lab) Phase(p bootstrap.Phase, state bootstrap.State, _ time.Duration) {
	l.called(p.Name + " " + state.String())
}

func (l *lab) Renewed() {}

func (l *lab) Troubled(about string, err error) { l.called(about + ": " + err.Error()) }

func (l *lab) Pending(reason string) { l.called("pending: " + reason) }

func (l *lab) Progressed(string, bootstrap.Progress) {}

func (l *lab) Bootstrapped(bootstrap.Base) { l.called("bootstrapped") }

func (l *lab) Leased(folder, hostKey string) {
	l.called("leased" + hostKey)
	l.folder = folder
}

func (l *lab) Resume(found []supervisor.Found) (bootstrap.Base, bool) {
	for _, f := range found {
		l.called("found " + f.ID)
		l.node.Supervisor().End(f.ID)
	}
	return bootstrap.Base{Env: map[string]string{"A": "1"}}, l.resumed
}

func (l *lab) Join(resumed bool) error {
	if resumed {
		l.called("joined again")
	} else {
		l.called("joined")
	}
	close(l.joined)
	return nil
}

func (l *lab) Reachable(up bool) {
	if !up {
		l.called("down")
	}
}

func (l *lab) Noticed(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notice = at
}

func (l *lab) Moved(received, sent int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moved = [2]int64{received, sent}
}

func (l *lab) TakenOver(error) bool { return l.takenOver }
func (l *lab) Offline() bool        { return l.offline }

func (l *lab) Failed(err error) {
	l.mu.Lock()
	if l.err == nil {
		l.err = err
		close(l.over)
	}
	l.mu.Unlock()
	l.node.GiveUp(err)
}

var errAway = errors.New("no route to the provider")
