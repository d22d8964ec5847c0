// Package supervisor runs commands on a node, detached from the connection.
//
// The node's half is a POSIX shell script, node.sh, fed to a shell that one long
// SSH session keeps open. Where the node has perl that session then belongs to
// session.pl, and runner.pl starts the tasks and waits for them, as one small
// process; elsewhere the shell does. A task costs one round trip: its short output comes back with
// its exit status. It runs in a process group of its own, with longer output in
// files, which the client follows by offset; so when the connection is cut,
// nothing is lost: a new session takes over and goes on where the old one stopped.
//
// A task's stdout and stderr are pipes, as under plain ssh: a program can open
// /dev/stdout or /dev/stderr anew, and nothing of what it wrote is cut off. They
// are read on the node, so that a task goes on when nobody asks for its output.
//
// # When the program is gone
//
// Tasks live on. A watcher on the node counts how long no client was heard: each
// sends a beat every quarter of the lease. The node ends the pool's part of it once
// that is the lease: after the last beat, or the end of the last task with
// Spec.HoldsLease, by up to two of the watcher's intervals more. An interval is a tenth
// of the lease, or of the TTL where that is less, but between one second and half a
// minute. So with a lease of 15 minutes tasks live on for 15 to 16 minutes.
//
// Meanwhile another program can take the node over, see [Attach]: it finds the tasks
// that run, and those that are over and were not released. What a task with
// Spec.Scratch has printed and how it ended stays on the node until [Node.Release], so
// that a program can first write it down; that of others goes soon after Run has
// returned. Only short output and the ends of tasks are in the memory of runner.pl: if
// that is killed, its tasks count as Vanished.
//
// Each program that takes a node over has a higher generation than those before it,
// whatever they still try ends with [ErrFenced].
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/overdue"
	"github.com/gputrain/gputrain/internal/ssh"
)

// Config says what a node is to do for its pool.
type Config struct {
	// PoolID names the pool: lower-case letters, digits and dashes.
	PoolID string
	// Name names the node, in the same letters, and marks what runs on it. It is
	// the node's own, since a machine can carry several. Empty means PoolID.
	Name string
	// Lease is how long the node goes on without hearing from this program. Zero
	// means 15 minutes. TTL is how long it goes on at most; zero means forever.
	Lease, TTL time.Duration
	// SelfDestruct is shell text by which the node ends itself when its lease or
	// TTL has run out. The pool's folder is then removed only where the text is
	// empty or sets the variable GPUTRAIN_REMOVE.
	SelfDestruct string
	// Root is the pool's folder. Empty means one that the node chooses: below the
	// home folder, or below TMPDIR (or /tmp) where that cannot be written to, by a
	// name that no other user of the node has made.
	Root string
	// Disk asks for Facts.DiskFreeBytes, which costs the node a process.
	Disk bool
	// Shell is the shell of the control session, as a command. Empty means sh where
	// the node has perl; otherwise bash, or else sh.
	Shell string
	// Plain has the shell do what runner.pl does elsewhere, with perl too. Attach goes
	// by what the node has.
	Plain bool
	// Disposable means that the machine ends with the node: a Start that fails leaves what
	// it has begun to that, and to the node's lease, and waits for nothing.
	Disposable bool
	// Generation says which of the programs that take the node over one after the
	// other this is. Zero means 1.
	Generation int
}

// A Node is a node under supervision. All methods can be called at the same time.
type Node struct {
	client *ssh.Client
	cfg    Config
	facts  Facts

	// life ends by Close, or when the node is lost for good. The cause says which.
	life context.Context
	end  context.CancelCauseFunc
	wg   sync.WaitGroup

	attention chan struct{} // signals the poller that something has changed

	heard atomic.Int64 // when the last frame came, in Unix nanoseconds
	beats atomic.Int64 // the last beat

	mu       sync.Mutex
	patience time.Duration
	slack    time.Duration // overdue.Grace, unless a test is in a hurry
	control  *control      // nil while there is none
	base     base
	tasks    map[string]*task
	orphans  map[string]*call // of cancel, for tasks that nobody waits for
	scratchs scratch
	broom    broom
	poll     pollState

	closing sync.Mutex
	closed  bool
}

var idPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// Start arms the node's watcher, makes the pool's folder, and returns the node
// ready for tasks. It must be the first thing that a pool runs on a node. A
// Start that fails leaves nothing behind, as far as the node can be reached, unless the
// machine is disposable.
func Start(ctx context.Context, c *ssh.Client, cfg Config) (*Node, error) {
	n, err := newNode(ctx, c, cfg)
	if err != nil {
		return nil, err
	}
	k, told, err := n.open(ctx, starting)
	if err != nil {
		n.end(err)
		if cfg.Disposable {
			return nil, err
		}
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), startCleanup)
		defer cancel()
		return nil, errors.Join(err, n.Close(clean, true))
	}
	n.begin(k, told)
	return n, nil
}

// newNode returns a node that nothing was asked of yet.
func newNode(ctx context.Context, c *ssh.Client, cfg Config) (*Node, error) {
	if cfg.Name == "" {
		cfg.Name = cfg.PoolID
	}
	for _, id := range []string{cfg.PoolID, cfg.Name} {
		if !idPattern.MatchString(id) {
			return nil, fmt.Errorf("id %q: want lower-case letters, digits and dashes", id)
		}
	}
	for name, s := range map[string]string{"SelfDestruct": cfg.SelfDestruct, "Root": cfg.Root} {
		if _, err := Quote(s); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if cfg.Lease <= 0 {
		cfg.Lease = 15 * time.Minute
	}
	if cfg.Generation <= 0 {
		cfg.Generation = 1
	}
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	n := &Node{
		client: c, cfg: cfg, life: life, end: end,
		attention: make(chan struct{}, 1),
		patience:  patience,
		slack:     overdue.Grace,
		tasks:     map[string]*task{},
		orphans:   map[string]*call{},
		scratchs:  newScratch(),
	}
	n.beats.Store(firstBeat + rand.Int64N(someBeats))
	return n, nil
}

// begin has the node's control served, for as long as it lives.
func (n *Node) begin(k *control, told answer) {
	n.facts = told.facts
	n.cfg.Root = n.facts.Root // where a later session finds the pool
	shortest := n.cfg.Lease   // beats that come more often than they need to do no harm
	if n.facts.Lease > 0 {
		shortest = min(shortest, n.facts.Lease)
		n.cfg.Lease = n.facts.Lease
	}
	n.base.path = n.facts.Path
	n.adopt(k)
	n.wg.Go(func() { n.keep(k) })
	n.wg.Go(n.pollLoop)
	n.wg.Go(func() { n.renew(shortest) })
}

// startCleanup bounds what a failed Start does to leave nothing behind.
const startCleanup = 15 * time.Second

// Facts returns what is known of the node.
func (n *Node) Facts() Facts { return n.facts }

// Done is closed when the node is lost for good, or closed. Err then says why.
func (n *Node) Done() <-chan struct{} { return n.life.Done() }

// Err is nil before Done is closed.
func (n *Node) Err() error { return context.Cause(n.life) }

// Fail gives the node up, because its owner knows that it is of no use any more. Runs in
// flight return the reason.
func (n *Node) Fail(reason error) { n.end(reason) }

// open opens a control session. Where the connection is cut meanwhile, it is
// tried again.
func (n *Node) open(ctx context.Context, how entry) (*control, answer, error) {
	first := how != again
	pause := 50 * time.Millisecond
	for failures := 0; ; {
		attempt, cancel := context.WithTimeout(ctx, openTimeout)
		if _, down := n.client.Down(); down || first {
			cancel() // the wait for a connection, or a start among very many, has no bound but ctx's
			attempt, cancel = context.WithCancel(ctx)
		}
		k, told, err := openControl(attempt, n.client, n.cfg, how, n.beat())
		cancel()
		if how == starting && !n.cfg.Plain && (errors.Is(err, errEnded) || errors.Is(err, errRunner) || errors.Is(err, errFrame)) {
			n.cfg.Plain = true // there is a perl, but it cannot do what is asked of it
			continue
		}
		if err == nil {
			return k, told, nil
		}
		if ctx.Err() != nil {
			return nil, told, fmt.Errorf("%w while the node's supervisor was started", context.Cause(ctx))
		}
		if e := n.client.Err(); e != nil {
			return nil, told, e
		}
		if !errors.Is(err, ssh.ErrDisconnected) {
			if failures++; failures >= openFailures || how == starting || isFinal(err) {
				return nil, told, err
			}
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, 5*time.Second)
		case <-ctx.Done():
		}
	}
}

// isFinal reports whether it is of no use to try again.
func isFinal(err error) bool {
	for _, final := range []error{ErrLapsed, ErrRestarted, ErrFenced, ErrVersion} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

const (
	openTimeout  = time.Minute
	openFailures = 6
)

// keep serves one control session after another until the node's life ends.
func (n *Node) keep(k *control) {
	for failures := 0; ; {
		stop := context.AfterFunc(n.life, func() { k.s.Close() })
		since := time.Now()
		err := n.serve(k)
		stop()
		n.mu.Lock()
		n.control = nil
		n.mu.Unlock()
		k.close()
		if n.life.Err() != nil {
			return
		}
		// A node that does not speak as it should gets a few chances.
		if failures++; !errors.Is(err, errFrame) || time.Since(since) > openTimeout {
			failures = 0
		}
		if failures >= openFailures {
			n.end(err)
			return
		}
		if k, _, err = n.open(n.life, again); err != nil {
			n.end(err)
			return
		}
		n.adopt(k)
	}
}

// adopt makes k the node's control, and has it report on every task in flight.
func (n *Node) adopt(k *control) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.control = k
	n.poll = pollState{}
	n.define()
	for _, c := range n.orphans {
		k.send(c)
	}
	clear(n.orphans)
	for _, t := range n.tasks {
		if t.cancelled() {
			k.send(t.cancelCall)
		}
		k.send(newCall("state", t.id))
		t.questions += 2
	}
	n.resweep()
	n.notice()
}

// send gives a call to the control session. Without one it does nothing: the
// next one asks for the state of every task.
func (n *Node) send(c *call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.control != nil {
		n.control.send(c)
	}
}

// notice has the poller look again.
func (n *Node) notice() {
	select {
	case n.attention <- struct{}{}:
	default:
	}
}

// renew keeps a lease.
func (n *Node) renew(lease time.Duration) {
	tick := time.NewTicker(max(lease/4, 250*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-n.life.Done():
			return
		case <-tick.C:
			n.mu.Lock()
			if n.control != nil {
				n.control.send(newCall("beat", n.beat()))
				n.poll.beats++
				n.poll.asked = time.Now()
			}
			n.mu.Unlock()
			n.notice()
		}
	}
}

// beat returns the next beat: a number that the node has not seen lately, also not
// from another client. All have as many digits, since they are written over each other.
func (n *Node) beat() string { return strconv.FormatInt(n.beats.Add(1), 10) }

const (
	firstBeat = 100_000_000_000
	someBeats = 800_000_000_000
)

// Close ends every task and everything else that the pool runs on the node,
// and the watcher; remove also removes the pool's folder. Runs in flight return
// ErrClosed. Once it has succeeded, Close does nothing more; after an error it
// can be called again. Where a later client has taken the node over, it touches
// nothing there, and the error is ErrFenced.
func (n *Node) Close(ctx context.Context, remove bool) error {
	n.closing.Lock()
	defer n.closing.Unlock()
	if n.closed {
		return nil
	}
	n.mu.Lock() // nothing is added to wg from here on
	n.end(ErrClosed)
	n.mu.Unlock()
	n.wg.Wait()
	if errors.Is(n.Err(), ErrFenced) {
		return ErrFenced
	}
	shell, rm := "exec sh", "0"
	if n.cfg.Shell != "" {
		shell = "exec " + n.cfg.Shell
	}
	if remove {
		rm = "1"
	}
	root := n.facts.Root
	if root == "" {
		root = n.cfg.Root
	}
	text := script + newCall("close", root, n.cfg.Name, rm, strconv.Itoa(n.cfg.Generation)).String()
	for {
		var out, complaint tail
		err := n.client.Exec(ctx, shell, strings.NewReader(text), &out, &complaint)
		if strings.HasSuffix(strings.TrimSpace(out.String()), "fenced") {
			return ErrFenced
		}
		if err == nil && !strings.HasSuffix(out.String(), "closed") {
			err = errors.New("the node's shell did not answer")
		}
		switch {
		case err == nil:
			n.closed = true
			return nil
		case ctx.Err() == nil && n.client.Err() == nil && errors.Is(err, ssh.ErrDisconnected):
			continue
		}
		if s := complaint.String(); s != "" {
			err = fmt.Errorf("%w: it says: %s", err, s)
		}
		return fmt.Errorf("ending the pool's part of the node: %w", err)
	}
}
