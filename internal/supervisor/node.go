// Package supervisor runs commands on a node, detached from the connection.
//
// The node's half is a POSIX shell script, node.sh, fed to a shell that one long SSH session keeps open. If the node
// has perl, session.pl takes over that session, and runner.pl, one small process, starts the tasks and waits for them.
// Otherwise the shell does both. A task costs one round trip: its short output comes back with its exit status. It runs
// in a process group of its own, with longer output in files, which the client follows by offset. So a cut connection
// loses nothing: a new session goes on where the old one stopped.
//
// A task's stdout and stderr are pipes, as under plain ssh: a program can open /dev/stdout or /dev/stderr anew, and
// none of its output is cut off. The node reads them, so a task goes on while no client asks for its output.
//
// A task is over when its command has ended and no process holds the pipes, as under ssh, but with bounds: what is left
// in the command's group has two seconds for its last lines, none if a signal has ended the command or if it holds no pipe,
// and is then ended, by TERM and a second later by KILL. Filters, whose stdin is a pipe, as that of the tee of
// `exec > >(tee log)` is, have ten seconds: they read what the others wrote, and end by themselves. Processes that have left
// the group are not ended, and are listened to for two seconds, or for a minute while they print.
//
// # When the program is gone
//
// Tasks live on. A watcher on the node counts how long it has heard from no client: each client sends a beat every
// quarter of the lease. The node ends the pool's part of it when that time reaches the lease, counted from the last
// beat or from the end of the last task with Spec.HoldsLease, and up to two of the watcher's intervals later. An
// interval is a tenth of the lease, or of the TTL if that is less, but between one second and half a minute. So with a
// lease of 15 minutes tasks live on for 15 to 16 minutes.
//
// Meanwhile another program can take the node over, see [Attach]: it finds the tasks that run, and those that are over
// and were not released. The output and the end of a task with Spec.Scratch stay on the node until [Node.Release], so
// that a program can record them first; those of other tasks are removed soon after Run has returned. Only short output
// and the ends of tasks are in the memory of runner.pl: if that is killed, its tasks count as Vanished.
//
// # A node within a node
//
// A container on the machine can be a node of its own, with its Config.Root in the folder of the machine's node. The
// machine's watcher then does not see the container's tasks, so the container's watcher renews the machine's lease as
// long as a task there has Spec.HoldsLease. [AtEnd] leaves text on the machine that ends the container, however
// the node ends.
//
// Each program that takes a node over has a higher generation than those before it. Whatever these still try ends with
// [ErrFenced].
package supervisor

import (
	"cmp"
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

	"github.com/gputrain/gputrain/internal/ssh"
)

// Config configures a node for its pool.
type Config struct {
	// PoolID names the pool: lower-case letters, digits and dashes.
	PoolID string
	// Name names the node, in the same letters, and marks its processes. It is the node's own, since a machine can
	// carry several nodes. Empty means PoolID.
	Name string
	// Lease is how long the node goes on without hearing from this program. Zero means 15 minutes. TTL bounds its whole
	// life; zero means no bound.
	Lease, TTL time.Duration
	// Renewed, if it is set, is called after every tenth renewal of the lease over a connection.
	Renewed func()
	// SelfDestruct is shell text by which the node ends itself when its lease or TTL has run out. The pool's folder is
	// then removed only if the text is empty or sets the variable GPUTRAIN_REMOVE. See also [Keep].
	SelfDestruct string
	// Root is the pool's folder. Empty means one that the node chooses: below the home folder, or below TMPDIR (or
	// /tmp) if the home folder is not writable, under a name that no other user of the node has made.
	Root string
	// Cache is the folder for files that outlive the pool. Empty means one beside the pool's folder, or within Root if
	// that is set.
	Cache string
	// Disk asks for Facts.DiskFreeBytes, which costs the node a process.
	Disk bool
	// Shell is the shell of the control session, as a command. Empty means sh if the node has perl; otherwise bash, or
	// else sh.
	Shell string
	// Plain makes the shell do runner.pl's work even if the node has perl. Attach ignores it and follows what the node
	// has.
	Plain bool
	// Disposable means that the machine ends with the node: a Start that fails does not wait to clean up, since the
	// machine's end and the node's lease do.
	Disposable bool
	// Generation numbers the programs that take the node over one after the other. Zero means 1.
	Generation int
}

// A Node is a node under supervision. Its methods can be called concurrently.
type Node struct {
	client Client
	cfg    Config
	facts  Facts
	files  files

	// life ends by Close, or when the node is lost for good, with the reason as its cause.
	life context.Context
	end  context.CancelCauseFunc
	wg   sync.WaitGroup

	beats beats

	mu       sync.Mutex
	control  *control // nil if there is none
	base     base
	tasks    map[string]*task
	orphans  map[string]*call // of cancel, for tasks that no caller waits for
	scratchs scratch
	cleanup  cleanup
	poll     poller

	closing sync.Mutex
	closed  bool
}

// Keep is the SelfDestruct of a machine that was rented, and cannot end itself: it is there, and billed, until a client
// ends it. When its lease is over it ends what runs, which is [Lapsed], and keeps what has ended until a client asks for
// that: a client that slept has the node back. It ends everything once its TTL is over, or if text is left by AtEnd.
const Keep = "keep"

// AtEnd leaves shell text on the node that is run once the node has ended its tasks: by Close, by the lease, or by a
// later program. It runs in t/ of the pool's folder, has a minute, and must end with success: otherwise Close fails, and
// a lease that has lapsed goes on without it. It replaces earlier text.
func AtEnd(ctx context.Context, n *Node, text string) error {
	return n.files.store(ctx, lastFile, strings.NewReader(text))
}

// lastFile is the file for the text of AtEnd: node.sh's end.sh.
const lastFile = "end.sh"

var idPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// Start arms the node's watcher, makes the pool's folder, and returns the node ready for tasks. It must be the first
// thing that a pool runs on a node. A Start that fails leaves nothing behind, if the node can be reached, unless the
// machine is disposable.
func Start(ctx context.Context, c Client, cfg Config) (*Node, error) {
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

// newNode returns a node that was not contacted yet.
func newNode(ctx context.Context, c Client, cfg Config) (*Node, error) {
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
		tasks:    map[string]*task{},
		orphans:  map[string]*call{},
		scratchs: newScratch(),
		poll:     newPoller(),
	}
	n.files = files{client: c, facts: &n.facts, generation: cfg.Generation, life: life, end: end}
	n.beats.Store(firstBeat + rand.Int64N(someBeats))
	return n, nil
}

// begin serves the node's control for as long as it lives.
func (n *Node) begin(k *control, told answer) {
	n.facts = told.facts
	n.facts.CacheDir = cmp.Or(n.cfg.Cache, n.facts.CacheDir)
	n.cfg.Root = n.facts.Root // where a later session finds the pool
	shortest := n.cfg.Lease   // more beats than needed do no harm
	if n.facts.Lease > 0 {
		shortest = min(shortest, n.facts.Lease)
		n.cfg.Lease = n.facts.Lease
	}
	n.base.path = n.facts.Path
	n.poll.last, n.poll.lastLook = time.Now(), time.Now()
	n.adopt(k)
	n.wg.Go(func() { n.keep(k) })
	n.wg.Go(n.pollLoop)
	n.wg.Go(func() { n.renew(shortest) })
}

// startCleanup bounds the cleanup after a failed Start.
const startCleanup = 15 * time.Second

// Facts returns what the node reported about itself.
func (n *Node) Facts() Facts { return n.facts }

// Done is closed when the node is lost for good, or closed. Err then returns why.
func (n *Node) Done() <-chan struct{} { return n.life.Done() }

// Err is nil before Done is closed.
func (n *Node) Err() error { return context.Cause(n.life) }

// Fail gives the node up, because its owner knows that it is of no further use. Runs in flight return the reason.
func (n *Node) Fail(reason error) { n.end(reason) }

// open opens a control session, and tries again if the connection is cut.
func (n *Node) open(ctx context.Context, how entry) (*control, answer, error) {
	first := how != again
	pause := 50 * time.Millisecond
	for failures := 0; ; {
		attempt, cancel := context.WithTimeout(ctx, openTimeout)
		if _, down := n.client.Down(); down || first {
			cancel() // only ctx bounds the wait for a connection, or a start among very many
			attempt, cancel = context.WithCancel(ctx)
		}
		k, told, err := openControl(attempt, n.client, n.cfg, how, n.beats.next())
		cancel()
		if how == starting && !n.cfg.Plain && (errors.Is(err, errEnded) || errors.Is(err, errRunner) || errors.Is(err, errFrame)) {
			n.cfg.Plain = true // perl does not work as needed
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

// isFinal reports whether another try would fail too.
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
		err := k.serve(&n.poll.heard, n.handle)
		stop()
		n.mu.Lock()
		n.control = nil
		n.mu.Unlock()
		k.close()
		if n.life.Err() != nil {
			return
		}
		// A node that breaks the protocol gets a few more tries.
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

// adopt makes k the node's control, and asks it for the state of every task in flight.
func (n *Node) adopt(k *control) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.control = k
	n.poll.unanswered = unanswered{}
	n.base.define(k)
	for _, c := range n.orphans {
		k.send(c)
	}
	clear(n.orphans)
	for _, t := range n.tasks {
		if end := t.ending(); end != nil {
			k.send(end)
		}
		k.send(newCall("state", t.id))
		t.questions += 2
	}
	n.cleanup.resweep()
	n.poll.notice()
}

// send sends a call over the control session. Without one it does nothing: the next session asks for the state of every
// task.
func (n *Node) send(c *call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.control != nil {
		n.control.send(c)
	}
}

// pollLoop asks for output and cleans up until the node's life ends.
func (n *Node) pollLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-n.life.Done():
			return
		case <-n.poll.attention:
		case <-timer.C:
		}
		n.mu.Lock()
		next := min(n.poll.turn(n.control, n.tasks), n.cleanup.turn(n.control))
		n.mu.Unlock()
		timer.Reset(next)
	}
}

// renew keeps a lease.
func (n *Node) renew(lease time.Duration) {
	tick := time.NewTicker(max(lease/4, 250*time.Millisecond))
	defer tick.Stop()
	for renewals := 0; ; {
		select {
		case <-n.life.Done():
			return
		case <-tick.C:
			n.mu.Lock()
			up := n.control != nil
			if up {
				n.poll.beat(n.control, n.beats.next())
			}
			n.mu.Unlock()
			n.poll.notice()
			if renewals++; up && renewals%10 == 0 && n.cfg.Renewed != nil {
				n.cfg.Renewed()
			}
		}
	}
}

// beats numbers the beats of a lease. Each number is one that the node has not seen lately, not even from another
// client. All have the same number of digits, since they overwrite each other.
type beats struct{ atomic.Int64 }

func (b *beats) next() string { return strconv.FormatInt(b.Add(1), 10) }

const (
	firstBeat = 100_000_000_000
	someBeats = 800_000_000_000
)

// Close ends every task and everything else that the pool runs on the node, and the watcher; if remove is set it also
// removes the pool's folder. Runs in flight return ErrClosed. Once it has succeeded, Close does nothing more; after an
// error it can be called again. If a later client has taken the node over, Close changes nothing there, and the error
// is ErrFenced.
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
	for try := 0; ; try++ {
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
		case ctx.Err() == nil && isWorthRepeating(n.client, err, try):
			continue
		}
		if s := complaint.String(); s != "" {
			err = fmt.Errorf("%w: stderr: %s", err, s)
		}
		return fmt.Errorf("ending the pool's part of the node: %w", err)
	}
}
