package gang

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/gputrain/gputrain/internal/attempt"
)

// decide reports whether another attempt follows one that failed, and readies the gang for it. The error says why none
// follows, if its failures do not.
func (g *gang) decide(e *Attempt) (again bool, err error) {
	root := e.Failures[0]
	g.replace(e, root)
	if root.Final {
		return false, nil
	}
	if root.Kind == NeverStarted {
		g.unstarted++
		return g.unstarted < mostUnstarted, nil
	}
	g.unstarted = 0
	suspect := g.setAside(e, root)
	if g.progressed(e) {
		g.fruitless = 0
	} else if g.fruitless++; g.fruitless >= mostFruitless {
		return false, errNoProgress
	}
	if root.Kind == NodeLost || root.Kind == Accelerator {
		g.pause, g.next = 0, 0
		return true, nil
	}
	if !suspect {
		g.restarts++
	}
	g.pause, g.next = g.next, min(max(2*g.next, firstPause), longestPause)
	return g.restarts <= g.Restarts, nil
}

// progressed reports whether an attempt got further than those before it.
func (g *gang) progressed(e *Attempt) bool {
	further := e.Last > g.best || g.Host.Checkpoint() > g.kept
	g.best = max(g.best, e.Last)
	g.stepped = g.stepped || e.Last > 0
	return further
}

// replace gives back the nodes that are lost or broken.
func (g *gang) replace(e *Attempt, root Failure) {
	for _, f := range e.Failures {
		if f.Node < 0 || f.Node >= len(g.nodes) || g.nodes[f.Node] == nil {
			continue
		}
		switch {
		case g.nodes[f.Node].Context().Err() != nil:
			g.drop(f.Node, nil)
		case f.Broken:
			g.drop(f.Node, f.Err)
		}
	}
	if root.Node < 0 || root.Node >= len(e.Nodes) {
		return
	}
	name := e.Nodes[root.Node].Name()
	switch {
	case (root.Kind == Stalled || root.Kind == Idle) && root.Why == nil: // one that has ended by itself is the program's fault
		if g.stalls[name]++; g.stalls[name] > 1 {
			g.drop(root.Node, fmt.Errorf("two attempts of a training have stalled there: %w", root.Err))
		}
	case root.Kind == Own && root.Why != nil && root.Why.Cause == attempt.OutOfMemory:
		if g.memory[name]++; g.memory[name] > 1 && len(g.memory) == 1 {
			g.drop(root.Node, errors.New("two attempts of a training were out of memory there, and not elsewhere"))
			clear(g.memory)
		}
	}
}

// setAside has later attempts not resume from a checkpoint from which two have failed before their first step. It reports whether
// the failure may be the checkpoint's: that is no restart of the program's.
func (g *gang) setAside(e *Attempt, root Failure) (suspect bool) {
	if e.Resumed == "" || e.First > 0 || root.Kind != Own {
		return false
	}
	if g.failedFrom[e.Resumed]++; g.failedFrom[e.Resumed] > 1 {
		g.Host.SetAside(e.Resumed)
		maps.DeleteFunc(g.failedFrom, func(name string, _ int) bool { return name == e.Resumed })
	}
	return true
}

// Lost returns the failures of an attempt's nodes that are given up.
func Lost(e *Attempt) (failures []Failure) {
	for i, n := range e.Nodes {
		if ctx := n.Context(); ctx.Err() != nil {
			failures = append(failures, Failure{Kind: NodeLost, Node: i, Share: -1, Rank: -1, Err: context.Cause(ctx)})
		}
	}
	return failures
}
