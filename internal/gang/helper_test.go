package gang

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/steps"
	"github.com/gputrain/gputrain/providers/driver"
)

// A testNode is a node that a test loses.
type testNode struct {
	name string
	ctx  context.Context
	lose context.CancelCauseFunc
	down atomic.Bool
}

func (n *testNode) Name() string             { return n.name }
func (n *testNode) Context() context.Context { return n.ctx }
func (n *testNode) IsUp() bool               { return !n.down.Load() }

// A testHost has nodes and runs scripts in place of processes.
type testHost struct {
	t      *testing.T
	spares int // nodes that it can still make
	script func(s *testShare) *Failure

	mu       sync.Mutex
	made     int
	nodes    []*testNode
	alive    map[int]int // shares that run, by attempt
	releases map[int]chan struct{}
	log      []string
	steps    []int64 // that were reported
	attempts []*Attempt
	prepare  func(e *Attempt, fresh []int) []Failure
	kept     int64
	aside    []string
	dirty    map[int]bool // attempts after which node 0 cannot be cleaned
	unstart  map[int]int  // the share that cannot be started, by attempt
	order    func(e *Attempt, failures []Failure) []Failure
}

// A testShare is one process.
type testShare struct {
	ctx   context.Context
	e     *Attempt
	share int
	track *Track
}

func (s *testShare) step(n int64) { s.track.Step(s.share, steps.Step{N: n}) }

// sleep reports false if the share was ended meanwhile.
func (s *testShare) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.ctx.Done():
		return false
	}
}

func exit(code int) *Failure {
	return &Failure{Kind: Own, Rank: -1, Why: &attempt.Failure{Cause: attempt.Exit, ExitCode: code}}
}

func (h *testHost) logf(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func (h *testHost) Grow(ctx context.Context, n int) ([]Node, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.nodes) < n {
		if h.made >= h.spares {
			return nil, driver.ErrNoCapacity
		}
		one := &testNode{name: fmt.Sprint("n", h.made)}
		one.ctx, one.lose = context.WithCancelCause(h.t.Context())
		h.made++
		h.nodes = append(h.nodes, one)
	}
	var all []Node
	for _, n := range h.nodes {
		all = append(all, n)
	}
	return all, nil
}

func (h *testHost) Drop(n Node, broken error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	why := "lost"
	if broken != nil {
		why = broken.Error()
	}
	h.log = append(h.log, "drop "+n.Name()+": "+why)
	h.nodes = slices.DeleteFunc(h.nodes, func(other *testNode) bool { return other == n })
}

func (h *testHost) Prepare(ctx context.Context, e *Attempt, fresh []int) []Failure {
	if h.prepare != nil {
		return h.prepare(e, fresh)
	}
	return nil
}

func (h *testHost) Start(ctx context.Context, e *Attempt, t *Track) {
	h.mu.Lock()
	for number, alive := range h.alive {
		if alive > 0 {
			h.t.Errorf("attempt %d starts while %d shares of attempt %d live", e.Number, alive, number)
		}
	}
	release := make(chan struct{})
	h.releases[e.Number] = release
	h.alive[e.Number] = len(t.shares)
	h.mu.Unlock()
	for i := range t.shares {
		go func() {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			n := e.Nodes[t.node(i)]
			defer context.AfterFunc(n.Context(), func() { cancel(context.Cause(n.Context())) })()
			f := h.runShare(ctx, e, t, i, release)
			if n.Context().Err() != nil {
				f = &Failure{Kind: NodeLost, Rank: -1, Err: context.Cause(n.Context())}
			} else if ctx.Err() != nil {
				f = &Failure{Kind: Own, Rank: -1, Why: attempt.Failed(attempt.Cancelled, context.Cause(ctx))}
			}
			if f != nil {
				f.Node, f.Share = t.node(i), i
			}
			h.mu.Lock()
			h.alive[e.Number]--
			h.mu.Unlock()
			t.Ended(i, f)
		}()
	}
}

func (h *testHost) runShare(ctx context.Context, e *Attempt, t *Track, i int, release chan struct{}) *Failure {
	if bad, ok := h.unstart[e.Number]; ok && bad == i {
		return &Failure{Kind: NeverStarted, Rank: -1}
	}
	t.Prepared(i)
	select {
	case <-release:
	case <-ctx.Done():
		return nil
	}
	return h.script(&testShare{ctx, e, i, t})
}

func (h *testHost) Release(ctx context.Context, e *Attempt, _ *Track) []Failure {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.alive[e.Number] != e.shares() {
		h.t.Errorf("attempt %d is released with %d of its shares", e.Number, h.alive[e.Number])
	}
	close(h.releases[e.Number])
	return nil
}

func (e *Attempt) shares() int { return len(e.Nodes) }

func (h *testHost) Resume(ctx context.Context, e *Attempt, t *Track) {
	h.Start(ctx, e, t)
	close(h.releases[e.Number])
}

func (h *testHost) Stacks(ctx context.Context, e *Attempt) map[int]string {
	return map[int]string{0: "stack of 0", 1: "stack of 1"}
}

func (h *testHost) Clean(ctx context.Context, e *Attempt) []Failure {
	if h.dirty[e.Number] {
		return []Failure{{Kind: NeverStarted, Node: 0, Share: -1, Err: errors.New("cannot be cleaned")}}
	}
	return nil
}

func (h *testHost) Checkpoint() int64          { return h.kept }
func (h *testHost) SetAside(checkpoint string) { h.aside = append(h.aside, checkpoint) }

func (h *testHost) Order(e *Attempt, failures []Failure) []Failure {
	if h.order != nil {
		return h.order(e, failures)
	}
	slices.SortStableFunc(failures, func(a, b Failure) int { return a.At.Compare(b.At) })
	return failures
}

func (h *testHost) Report(s State, e *Attempt) {
	h.logf("%d %v", e.Number, s)
	if s == Failing || s == Done {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.attempts = append(h.attempts, e)
	}
}

func (h *testHost) Succeeded(context.Context, *Attempt) {}

func (h *testHost) Lagged(e *Attempt, share int, behind int64) {
	h.logf("%d lags by %d", share, behind)
}

func (h *testHost) Reported(_ *Attempt, _ int, s steps.Step) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps = append(h.steps, s.N)
}

func newHost(t *testing.T, nodes int, script func(s *testShare) *Failure) *testHost {
	return &testHost{
		t: t, spares: nodes, script: script, alive: map[int]int{}, releases: map[int]chan struct{}{}, kept: -1,
		dirty: map[int]bool{}, unstart: map[int]int{},
	}
}

// last returns the failures of the last attempt.
func (h *testHost) last() []Failure { return h.attempts[len(h.attempts)-1].Failures }

var errGone = errors.New("gone")
