// Package preflight checks, before a gang starts on nodes, what would otherwise fail or hang in the middle of its start: that
// the nodes reach all ports of each other, have the same accelerators with free memory, and room where programs need it. It
// runs short sh scripts where tasks run, on all nodes at once, and leaves nothing there.
package preflight

import (
	"cmp"
	"context"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// bound limits a whole check.
	bound = time.Minute
	// factsTime limits the part of it in which nodes describe themselves, so that one that does not answer leaves time to
	// check the others.
	factsTime = 25 * time.Second
)

// Commands run commands where the tasks of a node run.
type Commands interface {
	ExecMoving(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error
}

// A Node is one node of a gang.
type Node struct {
	// Rank is its rank in the pool, by which errors name it.
	Rank int
	// Addr is the address by which the other nodes reach it. Empty means that there is none.
	Addr string
	// Network names the private network that it is in: nodes of different networks cannot reach each other. Empty means
	// unknown.
	Network string
	// Commands run the checks.
	Commands Commands
	// Sample returns one sample of its accelerators. Nil means that they are not sampled.
	Sample func(context.Context) ([]Device, error)
}

// A Device is one accelerator in a sample.
type Device struct {
	// Name says which one it is: its index or its UUID.
	Name string
	// UsedMiB is the memory that is in use.
	UsedMiB float64
	// Uncorrected counts memory errors that were not corrected since the driver was loaded.
	Uncorrected int64
	// RemapPending and RemapFailed report that a row of memory is to be replaced by a reset, and that this has failed.
	RemapPending, RemapFailed bool
}

// Options are the needs of a gang.
type Options struct {
	// Port is the master port on the first node, which is checked in addition to random ones. Zero means none.
	Port int
	// Processes is how many processes a node runs.
	Processes int
	// Accelerators is how many devices each node must have. Zero means as many as the others.
	Accelerators int
	// NoInfiniBand means that the program does not use InfiniBand (NCCL_IB_DISABLE).
	NoInfiniBand bool
	// AllowPublicNetwork lets the nodes meet at public addresses.
	AllowPublicNetwork bool

	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error) // nil is the system's
}

// A Severity says what a problem means for a gang.
type Severity int

const (
	// Note is worth an event. The gang may start.
	Note Severity = iota
	// Again means that another port would help.
	Again
	// Replace means that another machine in place of the node would help.
	Replace
	// Refuse means that the gang cannot start on these nodes.
	Refuse
)

// String returns the name of the constant in lower case: "note".
func (s Severity) String() string {
	names := [...]string{Note: "note", Again: "again", Replace: "replace", Refuse: "refuse"}
	if s < 0 || int(s) >= len(names) {
		return "Severity(" + strconv.Itoa(int(s)) + ")"
	}
	return names[s]
}

// A Problem is one thing that a check has found.
type Problem struct {
	// Node is the index of the node, and Peer of the other node that it concerns, or -1.
	Node, Peer int
	Severity   Severity
	// Err names the node, the peer, the address and the port, and says what to do. It is [driver.ErrUnsupported],
	// [driver.ErrUnavailable], or [driver.ErrAccelerator].
	Err error
}

// Check checks nodes that a gang is to start on, all at once, within a minute. It returns what it has learned of each node,
// and the problems, the severest first. One node alone passes all checks of the network. On nodes that may not meet, nothing
// is run.
func Check(ctx context.Context, nodes []Node, o Options) ([]Facts, []Problem) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	c := &check{nodes: nodes, options: o, facts: make([]Facts, len(nodes)), answered: make([]bool, len(nodes))}
	if c.meet(ctx) {
		c.addresses()
		c.describe(ctx)
		c.accelerators()
		c.room()
		c.infiniBand()
	}
	if len(nodes) > 1 && !c.refused() {
		c.ports(ctx)
	}
	slices.SortStableFunc(c.problems, func(a, b Problem) int { return cmp.Compare(b.Severity, a.Severity) })
	return c.facts, c.problems
}

// A check is one run of Check.
type check struct {
	nodes    []Node
	options  Options
	facts    []Facts
	answered []bool // nodes whose facts are known

	mu       sync.Mutex
	problems []Problem // guarded by mu
}

func (c *check) add(p Problem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, p)
}

func (c *check) refused() bool {
	return slices.ContainsFunc(c.problems, func(p Problem) bool { return p.Severity == Refuse })
}

// each calls f for each node at once.
func (c *check) each(f func(i int, n Node)) {
	var all sync.WaitGroup
	for i, n := range c.nodes {
		all.Go(func() { f(i, n) })
	}
	all.Wait()
}

// fault returns an error of a check.
func fault(kind, err error, hint string) error {
	return &driver.Error{Op: "preflight", Kind: kind, Err: err, Hint: hint}
}

// describe asks the nodes for their facts and for a sample.
func (c *check) describe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, factsTime)
	defer cancel()
	c.each(func(i int, n Node) {
		var sampling sync.WaitGroup
		defer sampling.Wait()
		if n.Sample != nil {
			sampling.Go(func() { c.sample(ctx, i, n) })
		}
		facts, err := describe(ctx, n)
		if err != nil {
			c.add(Problem{i, -1, Replace, fault(driver.ErrUnavailable, nodeError(n, "does not answer the checks: %w", err), "another machine takes its place")})
			return
		}
		c.facts[i], c.answered[i] = facts, true
	})
}
