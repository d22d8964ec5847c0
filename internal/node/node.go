// Package node is one node of a pool, from the launch of its machine to its end: it waits for
// the machine, connects and takes it over, compares it with what the pool asks for, bootstraps
// it, and watches it until it is lost or given up. It knows nothing of tasks; its [Owner] does.
package node

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Node is a machine that a pool uses. Run owns its life; the other methods can be called at
// any time, and those of a connection once there is one.
type Node struct {
	*Machine
	connection
	container

	settings *Settings
	owner    Owner
	pool     context.Context // the pool's
	ctx      context.Context // ends when the node is given up, or with the pool
	cancel   context.CancelCauseFunc

	server       server
	passwordSent atomic.Bool // the machine's SSH server asked for its password
	queries      queries     // asked before the node is ready
	startup      *startup
	sharing      sharing
	preemptions  atomic.Int64 // counts the commands of RunOnPreemption

	closing  sync.Once
	cleaning sync.Mutex
	clean    bool  // guarded by cleaning: nothing of the pool is on the machine
	cleanErr error // guarded by cleaning: why Abandon could not clean the machine
}

// New returns a node that has no machine yet. It is given up when ctx ends. The owner may be
// nil if Run is not called.
func New(ctx context.Context, settings *Settings, owner Owner) *Node {
	n := &Node{Machine: &Machine{settings: settings}, settings: settings, owner: owner, pool: ctx}
	n.ctx, n.cancel = context.WithCancelCause(ctx)
	n.container.node = n
	n.startup = &startup{node: n, reach: make(chan driver.Instance, 1)}
	n.sharing.node = n
	return n
}

// Context ends when the node is given up, or with the pool.
func (n *Node) Context() context.Context { return n.ctx }

// GiveUp ends the node's context. Run then returns.
func (n *Node) GiveUp(why error) { n.cancel(why) }

// HostKey returns the fingerprint of the key that the SSH server has proved, or "", and how
// the key came to be known.
func (n *Node) HostKey() (fingerprint string, source driver.HostKeySource) { return n.server.known() }

// Failures returns what went wrong last while the machine came up: for its provider, and for
// the connection.
func (n *Node) Failures() []error { return n.startup.failures() }

// Run takes the machine from its launch to its end. It calls the owner's Failed if the node
// fails or is lost, and returns when the node is given up, by Failed or else. The error
// launched came with the machine, if any: it is added to the error of a machine that cannot be
// reached.
func (n *Node) Run(launched error) {
	n.owner.Connecting()
	inst := n.Instance()
	n.settings.Go(func() { n.startup.watch(inst) })
	if err := n.connect(); err != nil {
		n.queries.end()
		err = n.because(err)
		if launched != nil && n.pool.Err() == nil {
			err = fmt.Errorf("%w (its launch returned: %v)", err, launched)
		}
		n.owner.Failed(err)
		return
	}
	var bringing sync.WaitGroup
	bringing.Go(func() {
		defer n.queries.end()
		if err := n.bringUp(); err != nil {
			n.owner.Failed(n.because(err))
		}
	})
	if why := n.watch(); why != nil {
		n.owner.Failed(why)
	}
	bringing.Wait()
}

// because returns why the node was given up, or else err.
func (n *Node) because(err error) error {
	if n.ctx.Err() != nil && n.pool.Err() == nil {
		return context.Cause(n.ctx)
	}
	return err
}

// bringUp makes the node ready.
func (n *Node) bringUp() error {
	shared := "" // the daemon that shares devices, if it runs already
	if n.Resumed() {
		var found []supervisor.Found
		found, shared = n.sharing.split(n.found)
		if base, ready := n.owner.Resume(found); ready {
			if n.container.wanted() && !n.container.runs() {
				return n.lost(errNoContainer)
			}
			n.Supervisor().SetBase(base.Env, base.Path)
			if ids := base.Env[cudaVisible]; strings.HasPrefix(ids, "GPU-") && n.settings.Image.Env[cudaVisible] == "" {
				n.useOnly(strings.Split(ids, ","))
				findDevices(n, n.Facts())
			}
			if err := n.sharing.start(shared); err != nil {
				return err
			}
			return n.join(true)
		}
	}
	if err := n.verify(); err != nil {
		return err
	}
	n.startup.contact()
	n.owner.Bootstrapping()
	if err := n.container.begin(); err != nil {
		return err
	}
	if err := n.sharing.checkContainer(); err != nil {
		return err
	}
	if err := n.bootstrap(); err != nil {
		return err
	}
	if err := n.sharing.start(shared); err != nil {
		return err
	}
	return n.join(false)
}

func (n *Node) join(resumed bool) error {
	n.Supervisor().SetSecrets(n.settings.Given.Secrets)
	if err := n.owner.Join(resumed); err != nil {
		return err
	}
	return n.startup.end()
}

// IsOver reports whether the node was given up, or is about to be: an operation on the node
// can fail before Run has found out why.
func (n *Node) IsOver() bool {
	select {
	case <-n.Client().Done():
	case <-n.Supervisor().Done():
	case <-n.onMachine().Done():
	default:
		return n.ctx.Err() != nil
	}
	<-n.ctx.Done()
	return true
}

// Close gives the node up and closes its connection. The machine is not touched.
func (n *Node) Close() {
	n.closing.Do(func() {
		n.cancel(driver.ErrClosed)
		n.close()
	})
}
