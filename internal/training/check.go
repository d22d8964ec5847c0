package training

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/gang"
	"github.com/gputrain/gputrain/internal/launcher"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/rootcause"
	"github.com/gputrain/gputrain/providers/driver"
)

// A checker runs the user's check on the nodes of an attempt.
type checker struct {
	t *Training
	e *gang.Attempt
}

// run runs the check on all nodes of an attempt together. If it fails there, it runs on pairs of them, and those that
// fail in two different pairs are the nodes that are not fit. Of nodes that cannot be told apart so, it is the one on which
// it failed first.
func (c checker) run(ctx context.Context) []gang.Failure {
	if len(c.t.Check.Args) == 0 && c.t.Check.Script == "" {
		return nil
	}
	all := make([]int, len(c.e.Nodes))
	for i := range all {
		all[i] = i
	}
	first := c.together(ctx, all)
	if first == nil || ctx.Err() != nil {
		return nil
	}
	suspects := c.suspects(ctx, all)
	if len(suspects) == 0 && first.Node < 0 {
		return []gang.Failure{{
			Kind: gang.NeverStarted, Node: -1, Share: -1, Rank: -1, At: time.Now(), Why: first.Why,
			Err: &driver.Error{Op: "check", Kind: driver.ErrUnavailable, Err: fmt.Errorf("the gang does not pass Training.Check: %w", first.Err)},
		}}
	}
	if len(suspects) == 0 {
		suspects = []int{first.Node}
	}
	var failures []gang.Failure
	for _, i := range suspects {
		failures = append(failures, gang.Failure{
			Kind: gang.NeverStarted, Node: i, Share: -1, Rank: -1, At: time.Now(), Broken: true, Why: first.Why,
			Err: &driver.Error{Op: "check", Kind: driver.ErrUnavailable, Err: fmt.Errorf("node %d of the gang does not pass Training.Check", i)},
		})
	}
	return failures
}

// suspects returns the nodes that fail in two pairs each, or nil if that tells nothing.
func (c checker) suspects(ctx context.Context, all []int) (guilty []int) {
	if len(all) < 3 {
		return nil
	}
	var groups [][]int
	for pair := range slices.Chunk(all, 2) {
		groups = append(groups, pair)
	}
	var good, bad []int
	for i, failed := range c.each(ctx, groups) {
		if failed {
			bad = append(bad, groups[i]...)
		} else {
			good = append(good, groups[i]...)
		}
	}
	if len(good) == 0 {
		return nil
	}
	// Each suspect meets a node that is good. A good one meets one suspect at a time.
	for some := range slices.Chunk(bad, len(good)) {
		groups = groups[:0:0]
		for i, suspect := range some {
			groups = append(groups, []int{suspect, good[i]})
		}
		for i, failed := range c.each(ctx, groups) {
			if failed {
				guilty = append(guilty, some[i])
			}
		}
	}
	return guilty
}

// each checks groups of nodes at the same time, and returns which have failed.
func (c checker) each(ctx context.Context, groups [][]int) []bool {
	failed := make([]bool, len(groups))
	var running sync.WaitGroup
	for i, group := range groups {
		running.Go(func() { failed[i] = c.together(ctx, group) != nil })
	}
	running.Wait()
	return failed
}

// together checks nodes together, and returns the first failure, with the node's rank in the gang.
func (c checker) together(ctx context.Context, group []int) *gang.Failure {
	t, e := c.t, c.e
	nodes := make([]Node, len(group))
	for i, node := range group {
		nodes[i] = e.Nodes[node].(Node)
	}
	refused := func(err error) *gang.Failure {
		return &gang.Failure{Kind: gang.NeverStarted, Node: group[0], Why: attempt.Failed(attempt.NeverStarted, err), Err: err}
	}
	number := t.log.check() // recorded first: what an earlier program has left of one has its name
	t.mu.Lock()
	before := t.port
	t.mu.Unlock()
	port, err := launcher.FreePort(ctx, repeated{nodes[0]}, t.mark(), e.Number+number, before)
	if err != nil {
		return refused(err)
	}
	t.mu.Lock()
	t.port = port
	t.mu.Unlock()
	m := t.together(nodes, e.Number, port, t.Check)
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	failures := make([]rootcause.Failure, m.shares)
	var running sync.WaitGroup
	for share := range failures {
		running.Go(func() {
			failures[share] = c.share(run, m, number, share)
			if failures[share].Why != nil {
				cancel(gang.Ended)
			}
		})
	}
	running.Wait()
	verdicts := rootcause.Order(failures)
	if len(verdicts) == 0 {
		return nil
	}
	v := verdicts[0]
	f := &gang.Failure{Kind: gang.NeverStarted, Node: -1, Why: v.Why, Err: errors.New(v.Reason)}
	if v.Node >= 0 {
		f.Node = group[v.Node]
	}
	if v.Why != nil { // of one that others waited for there is none
		f.Err = v.Why.Err
	}
	return f
}

// share makes one attempt at the check.
func (c checker) share(ctx context.Context, m *members, number, share int) rootcause.Failure {
	rank := share * len(m.nodes) / m.shares
	n := m.nodes[rank]
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.Context(), func() { cancel(context.Cause(n.Context())) })()
	kept := &progress{}
	s := &started{id: fmt.Sprintf("%s-c%d-r%d", c.t.ID, number, share), share: share, node: n, rank: rank, output: &output.Share{}, progress: kept, prepared: func() {}}
	defer s.output.Return()
	one := m.command(ctx, s)
	one.From = source(c.t.Name+" check", share, n)
	one.Args, one.Script = m.layout.Command(c.t.Launcher, m.pattern.Args, m.pattern.Script) // nothing waits for a release
	o := m.run(ctx, n, one)
	if o.Release != nil {
		o.Release()
	}
	f := rootcause.Failure{Node: rank, Ranks: []int{share}}
	kept.tell(&f)
	if o.Failure != nil && o.Failure.Cause != attempt.Cancelled {
		f.Why, f.At = o.Failure, cmp.Or(o.Failure.At, time.Now())
	}
	return f
}
