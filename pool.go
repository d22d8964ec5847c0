package gputrain

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
)

// A pool is the nodes, the tasks, and everything that was made for them. One
// goroutine owns each node's life; mu guards what they share.
type pool struct {
	id         string
	info       PoolInfo
	generation int       // counts the programs that have had the pool
	recalled   *recalled // what Attach has taken up; nil otherwise
	provider   string
	driver     Driver
	caps       Capabilities
	members    []*member // of which driver is made: itself, or a group's
	spec       Spec
	opts       options //secretvet:ignore users hold a pool by a pointer in Compute, which fmt does not follow
	keys       keys
	ctx        context.Context // ends with the pool
	cancel     context.CancelCauseFunc
	tasksCtx   context.Context         // ends with the tasks: with ctx, or before
	endWork    context.CancelCauseFunc // ends the tasks
	finish     context.CancelCauseFunc // ends the pool, as the end of the context given to Open does
	watch      func() bool             // stops watching for that, and for the TTL
	expire     func()                  // stops the TTL's clock

	rescaled chan struct{}  // signals that the desired number of nodes may be another
	launched chan struct{}  // signals that there was a launch
	ledger   *ledger.Ledger // nil until something is about to be made
	journal  *journal       // of tasks; nil until there is a ledger
	events   *events
	out      *output
	results  *resultsDir
	secrets  *redactor
	taskSeq  atomic.Int64
	programs programs

	describing describer
	pace       pace
	gathering  gathering

	lives      sync.WaitGroup // the nodes' goroutines, the launch, and the opening
	running    sync.WaitGroup // attempts, and waits between them
	background sync.WaitGroup // jobs

	preparing chan struct{}         // has room for one, who guards
	prepared  map[*member]time.Time // when what its machines share was last made

	paying chan struct{} // has room for one: with a budget, one launch at a time, since each must see what the others cost

	mu        sync.Mutex
	changed   *sync.Cond // a node's state
	nodes     []*poolNode
	former    []*poolNode          // whose place another one has taken
	lastErr   error                // of the last of them that failed
	inFlight  map[string]time.Time // names of machines that a launch is to make, and since when
	whole     wholeness
	tasks     scheduler // of those that wait
	uploads   uploads
	machines  map[string]*machine // by id: whatever was launched
	shared    map[string]Resource // by the ledger's rows: what else was made for the pool
	bought    []*machine          // the same, in order, with the strays
	strays    map[string]*machine // by id: what an audit found beside them
	named     map[int]int         // how many names a rank's machines were given
	avoided   map[place]avoidance // what failed
	least     int                 // nodes that the pool has at least,
	most      int                 // and at most
	woken     int                 // nodes that a broadcast wants
	holding   int                 // tasks that run and hold their node's lease
	stalled   time.Time           // when a node of an elastic pool could last not be had
	jobs      jobList
	closing   bool
	attaching bool // the end of the context leaves the pool as it is

	seen map[string]Resource // by id, what lists have had, for Reap, which alone uses it; nil otherwise

	closeOnce sync.Once
	closed    chan struct{}
	closeErr  error
}

// newPoolID returns a name that no other pool has: "digits-k3v9x2mq".
func newPoolID(name string) string {
	suffix := strings.ToLower(rand.Text()[:8])
	if name == "" {
		return "pool-" + suffix
	}
	name = strings.Trim(strings.ToLower(name), "-")
	if name == "" || name[0] < 'a' || name[0] > 'z' {
		name = "p-" + name
	}
	return name + "-" + suffix
}

// newToken returns what makes one launch idempotent.
func newToken() string { return strings.ToLower(rand.Text()) }

func now() time.Time { return time.Now() }

func (p *pool) snapshot() []Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	nodes := make([]Node, len(p.nodes))
	for i, n := range p.nodes {
		nodes[i] = n.publicLocked()
	}
	return nodes
}

func (p *pool) nodeOf(n *poolNode) Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return n.publicLocked()
}

// readyLocked returns the nodes that take tasks now, in rank order.
func (p *pool) readyLocked() []*poolNode {
	var ready []*poolNode
	for _, n := range p.nodes {
		if n.state == NodeReady || n.state == NodeUnreachable {
			ready = append(ready, n)
		}
	}
	return ready
}

// noNodesLocked says why there is no node, as an error that joins the nodes' own.
func (p *pool) noNodesLocked() error {
	var errs []error
	lost := false
	for _, n := range p.nodes {
		if n.err != nil {
			errs = append(errs, n.err)
		}
		lost = lost || n.state == NodeLost
	}
	if errs == nil && p.lastErr != nil {
		errs = []error{p.lastErr}
	}
	if joined := joinOnce(errs); joined != nil {
		return joined
	}
	if p.closing {
		return p.closedError()
	}
	if len(p.nodes) == 0 && p.spec.MaxNodes > 0 {
		return &Error{Provider: p.provider, Op: "pool", Kind: ErrUnavailable, Err: errors.New("it has no node now; a task gets it one")}
	}
	kind := ErrNoCapacity
	if lost {
		kind = ErrNodeLost
	}
	return &Error{Provider: p.provider, Op: "pool", Kind: kind, Err: errors.New("no node is left")}
}

// noneReadyLocked says why no node that a target allows is ready.
func (p *pool) noneReadyLocked(t Target) error {
	if p.closing {
		return p.closedError()
	}
	if err := p.impossibleLocked(t); err != nil {
		return err
	}
	var coming []string
	for _, n := range p.nodes {
		if now, later := t.matchesLocked(n); (now || later) && !n.state.over() {
			coming = append(coming, n.name+" is "+n.state.String())
		}
	}
	if coming == nil {
		return p.noNodesLocked()
	}
	return &Error{Provider: p.provider, Op: "target", Kind: ErrUnavailable,
		Err:  fmt.Errorf("no node is ready of those with %v: %s", t, joinSemicolons(coming)),
		Hint: "Run and Gather wait for one; Compute.Nodes says when it is ready"}
}

// joinOnce joins errors, each text once: four nodes that fail alike are one line.
func joinOnce(errs []error) error {
	seen := map[string]bool{}
	var unique []error
	for _, err := range errs {
		if !seen[err.Error()] {
			seen[err.Error()] = true
			unique = append(unique, err)
		}
	}
	return errors.Join(unique...)
}

func (p *pool) closedError() error {
	cause := context.Cause(p.ctx)
	if cause == nil || errors.Is(cause, ErrClosed) {
		return &Error{Provider: p.provider, Op: "pool", Kind: ErrClosed}
	}
	return &Error{Provider: p.provider, Op: "pool", Kind: ErrClosed, Err: cause}
}

func joinSemicolons(s []string) string { return strings.Join(s, "; ") }
