package gputrain

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A pool is the nodes, the tasks, and everything that was made for them. One
// goroutine owns each node's life; mu guards what they share.
type pool struct {
	id       string
	info     PoolInfo
	provider string
	driver   Driver
	caps     Capabilities
	spec     Spec
	opts     options
	keys     keys
	ctx      context.Context // ends with the pool
	cancel   context.CancelCauseFunc
	watch    func() bool // stops watching the context given to Open, and the TTL
	expire   func()      // stops the TTL's clock
	events   *events
	out      *output
	results  *resultsDir
	secrets  *redactor
	taskSeq  atomic.Int64
	programs programs

	lives      sync.WaitGroup // the nodes' goroutines, the launch, and the opening
	running    sync.WaitGroup // attempts, and waits between them
	background sync.WaitGroup // jobs

	mu       sync.Mutex
	changed  *sync.Cond // a node's state
	nodes    []*poolNode
	queue    queue
	targeted map[string]*queue // of the tasks that ask for labels
	uploads  []upload
	machines map[string]Instance // by id: whatever a launch returned
	bills    []*bill
	closing  bool

	closeOnce sync.Once
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

// owner says which program opened a pool.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

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
	if joined := joinOnce(errs); joined != nil {
		return joined
	}
	if p.closing {
		return p.closedError()
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
