// Package gang runs a program on several nodes at once: all of it starts or nothing does, the first failure ends all of it,
// and it starts again in a new attempt as often as it may. It knows neither how a process is started nor what a node is:
// it asks a [Host].
//
// A gang goes through the states
//
//	waiting -> starting -> running -> done
//
// and from starting or running through failing and restarting back to waiting. Two attempts never live at the same time:
// the next one starts only when nothing of the last one is left on any node that the gang keeps.
package gang

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/steps"
	"github.com/gputrain/gputrain/providers/driver"
)

// A State is the state of a gang.
type State int

const (
	// Waiting is for nodes.
	Waiting State = iota
	// Starting prepares the nodes and the processes, and releases the processes.
	Starting
	// Running follows the processes.
	Running
	// Failing ends what is left of an attempt.
	Failing
	// Restarting replaces nodes, and pauses.
	Restarting
	// Done is the end.
	Done
)

// String returns the state in lower case: "waiting".
func (s State) String() string {
	return [...]string{"waiting", "starting", "running", "failing", "restarting", "done"}[s]
}

// A Node is one machine of a gang. Nodes can be compared.
type Node interface {
	// Name identifies the machine: no other one of the pool has it.
	Name() string
	// Context ends when the node is given up. Its cause says why.
	Context() context.Context
	// IsUp reports whether the node can be reached now.
	IsUp() bool
}

// A Host does for a gang what needs nodes and processes. Its methods return early, with whatever they have, once ctx has ended.
type Host interface {
	// Grow waits until the gang has so many nodes, and no task runs on them. It returns all of them.
	Grow(ctx context.Context, nodes int) ([]Node, error)
	// Drop gives a node back. If broken is not nil, it says why the gang cannot use the node any more, and the node is
	// replaced if it can be.
	Drop(n Node, broken error)
	// Prepare readies an attempt: it checks the nodes, those with these indexes as never before, puts the newest checkpoint on
	// all of them and sets e.Resumed. Nothing of the attempt runs yet.
	Prepare(ctx context.Context, e *Attempt, fresh []int) []Failure
	// Start starts the shares of an attempt, and records it first. Each share calls t.Prepared once its process exists, and waits for
	// Release. When ctx ends the shares are ended. Every share calls t.Ended exactly once, and t.Failed before, if its
	// failure is known long before its end. Start does not wait for that.
	Start(ctx context.Context, e *Attempt, t *Track)
	// Release lets all shares run that wait.
	Release(ctx context.Context, e *Attempt, t *Track) []Failure
	// Resume is Start and Release for an attempt that an earlier program has started.
	Resume(ctx context.Context, e *Attempt, t *Track)
	// Stacks describes what the processes of shares do, by the share's index, in a few seconds.
	Stacks(ctx context.Context, e *Attempt) map[int]string
	// Clean ends whatever of the attempt, or of earlier ones, is left on its nodes, and waits until their accelerators' memory is
	// free. The failures name the nodes that it could not clean.
	Clean(ctx context.Context, e *Attempt) []Failure
	// Succeeded is called when all shares of an attempt have ended with success, before the Done of it is reported.
	Succeeded(ctx context.Context, e *Attempt)
	// Checkpoint returns a number that grows with each checkpoint that is kept.
	Checkpoint() int64
	// SetAside has no later attempt resume from a checkpoint.
	SetAside(checkpoint string)
	// Order puts the root cause of an attempt's failures first, and marks those that followed from it.
	Order(e *Attempt, failures []Failure) []Failure
	// Report is called when the state changes, with the attempt that it is about. When an attempt fails its Failures are set.
	Report(s State, e *Attempt)
	// Reported is called with the steps of all shares, as they come. It does not block.
	Reported(e *Attempt, share int, s steps.Step)
	// Lagged is called when a share has been steps behind the first for a while. It does not block.
	Lagged(e *Attempt, share int, behind int64)
}

// An Attempt is one start of a gang. Only the gang's own goroutine writes it.
type Attempt struct {
	// Number counts from 1.
	Number int
	// Nodes are the gang's, by rank.
	Nodes []Node
	// Port is where the processes meet.
	Port int
	// From is when it was released, and To when it had ended.
	From, To time.Time
	// Resumed is the checkpoint that it went on from, or empty.
	Resumed string
	// First and Last are the first and the greatest step that it reported, or 0.
	First, Last int64
	// Failures are why it failed, the root cause first.
	Failures []Failure
	// Cut is why the caller has ended it, or nil.
	Cut error
	// Restarts counts the failures of the program before this attempt, and Fruitless the attempts in a row that got no further.
	// Once another attempt is to follow, this one counts too.
	Restarts, Fruitless int
}

// Config describes a gang.
type Config struct {
	Host Host
	// Nodes is how many it has, and Shares how many processes, or launchers, gputrain starts. Share i runs on node
	// i*Nodes/Shares.
	Nodes, Shares int
	// Restarts is how often it starts again after a failure of the program.
	Restarts int
	// Timeouts are the times of the watchdogs: zero is the default, and below zero there is none.
	StartTimeout, StallTimeout, IdleTimeout time.Duration
	// Attempt is the one that an earlier program has left, or nil. Over reports that it is over, and Released that its processes run.
	Attempt        *Attempt
	Over, Released bool
}

const (
	// After its first failure an attempt has collectTime to say what else failed, and lossTime if that is the loss of a node: no
	// word of the others changes what follows.
	collectTime, lossTime = 5 * time.Second, time.Second
	// It has unheardTime while a node cannot be reached.
	unheardTime = time.Minute
	// Fruitless attempts in a row, and starts that fail in a row, that end a training.
	mostFruitless, mostUnstarted = 3, 3
	// The first restart follows at once. The pause before the second is firstPause, and it doubles up to longestPause.
	firstPause, longestPause = 500 * time.Millisecond, 30 * time.Second
	// An attempt whose processes ignore their end, on nodes that do not answer, is waited for endPatience.
	endPatience = 3 * time.Minute
)

// A gang is a Config at work.
type gang struct {
	Config
	nodes     []Node // nil for a rank whose node was lost
	fresh     map[Node]bool
	last      []Node // of the last attempt, by rank
	restarts  int    // failures of the program so far
	fruitless int
	unstarted int           // attempts in a row that were not released
	pause     time.Duration // before the next attempt
	next      time.Duration // the pause after that, if the program fails again
	best      int64         // the greatest step of all attempts
	kept      int64         // the step of the newest checkpoint when the last attempt began
	stepped   bool          // some attempt has reported steps

	stalls     map[string]int // by the name of the node that was the root
	memory     map[string]int // so too, ends for lack of memory
	failedFrom map[string]int // attempts that failed before their first step, by what they resumed from
}

// Run runs a gang to its end. It returns nil if all shares have ended with success, or else why no attempt follows the last: the
// failures of that are in the Report. The error is nil too if the last failures say all of it.
func Run(ctx context.Context, c Config) (ok bool, err error) {
	g := &gang{Config: c, fresh: map[Node]bool{}, kept: -1, stalls: map[string]int{}, memory: map[string]int{}, failedFrom: map[string]int{}}
	last := 0
	if e := c.Attempt; e != nil {
		last, g.restarts, g.fruitless, g.best = e.Number, e.Restarts, e.Fruitless, e.Last
		g.stepped = e.Last > 0
		if c.Over {
			g.nodes, g.last = slices.Clone(e.Nodes), e.Nodes
		} else if end, err := g.takeUp(ctx, e); end != again || err != nil {
			return end == succeeded, err
		}
	}
	for number := last + 1; ; number++ {
		e := &Attempt{Number: number, Restarts: g.restarts, Fruitless: g.fruitless}
		if end, err := g.try(ctx, e); end != again || err != nil {
			return end == succeeded, err
		}
	}
}

// An ending says what follows an attempt.
type ending int

const (
	again     ending = iota // another attempt
	succeeded               // the end of the training
	failed                  // so too
)

// takeUp goes on with the attempt of an earlier program. If its processes had not been released, it fails, and does not count.
func (g *gang) takeUp(ctx context.Context, e *Attempt) (ending, error) {
	g.nodes = slices.Clone(e.Nodes)
	g.last = e.Nodes
	g.kept = g.Host.Checkpoint()
	if !g.Released {
		e.Failures = []Failure{{Node: -1, Share: -1, Rank: -1, At: time.Now(), Why: attempt.Failed(attempt.Cancelled, errNotFollowed), Err: errNotFollowed}}
		g.Host.Report(Failing, e)
		g.end(ctx, e, nil)
		g.Host.Report(Restarting, e)
		return again, context.Cause(ctx)
	}
	return g.live(ctx, e, true)
}

// errNotFollowed is why an attempt ends that cannot be taken up.
var errNotFollowed = errors.New("the program that followed it has ended, and another one cannot follow it")

// try makes one attempt.
func (g *gang) try(ctx context.Context, e *Attempt) (ending, error) {
	g.Host.Report(Waiting, e)
	if err := g.fill(ctx); err != nil {
		return failed, err
	}
	e.Nodes = slices.Clone(g.nodes)
	g.last = e.Nodes
	g.kept = g.Host.Checkpoint()
	g.Host.Report(Starting, e)
	return g.live(ctx, e, false)
}

// fill gets nodes for the ranks that have none.
func (g *gang) fill(ctx context.Context) error {
	if g.nodes == nil {
		g.nodes = make([]Node, g.Nodes)
	}
	for {
		for i, n := range g.nodes {
			if n != nil && n.Context().Err() != nil {
				g.drop(i, nil)
			}
		}
		all, err := g.Host.Grow(ctx, g.Nodes)
		if err != nil {
			return err
		}
		for i, n := range g.nodes {
			if n != nil && !slices.Contains(all, n) { // another gang, which waited before it, has got it
				g.nodes[i] = nil
				delete(g.fresh, n)
			}
		}
		g.seat(all)
		if !slices.ContainsFunc(g.nodes, func(n Node) bool { return n == nil || n.Context().Err() != nil }) {
			return nil
		}
	}
}

// seat gives the ranks that have no node one of these. A node of the last attempt that another gang has had meanwhile gets its rank
// again, even if another node has it by now, which gets the next that is free.
func (g *gang) seat(all []Node) {
	put := func(rank int, n Node) { g.nodes[rank], g.fresh[n] = n, true }
	for rank, n := range g.last {
		if n == nil || !slices.Contains(all, n) || slices.Contains(g.nodes, n) {
			continue
		}
		if other := g.nodes[rank]; other != nil {
			delete(g.fresh, other) // it is seated below
		}
		put(rank, n)
	}
	for _, n := range all {
		if i := slices.Index(g.nodes, nil); i >= 0 && !slices.Contains(g.nodes, n) {
			put(i, n)
		}
	}
}

// drop gives the node of a rank back.
func (g *gang) drop(i int, broken error) {
	n := g.nodes[i]
	if n == nil {
		return
	}
	g.nodes[i] = nil
	delete(g.fresh, n)
	g.Host.Drop(n, broken)
}

// live takes an attempt from its start to its end.
func (g *gang) live(ctx context.Context, e *Attempt, running bool) (ending, error) {
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := newTrack(g, e)
	defer t.close()
	var failures []Failure
	if running {
		g.Host.Report(Running, e)
		g.Host.Resume(run, e, t)
		t.released(e.From)
		failures = t.follow(ctx)
	} else if failures = g.start(ctx, run, e, t); len(failures) == 0 && ctx.Err() == nil {
		failures = t.follow(ctx)
	}
	if len(failures) == 0 && ctx.Err() == nil {
		e.To = time.Now()
		g.Host.Succeeded(ctx, e)
		g.Host.Report(Done, e)
		return succeeded, nil
	}
	if ctx.Err() == nil {
		failures = t.collect(ctx, failures)
		g.stacks(ctx, e, failures)
		e.Failures = g.Host.Order(e, failures)
	}
	e.Cut = context.Cause(ctx)
	g.Host.Report(Failing, e)
	cancel(&endedError{e.Failures})
	g.end(ctx, e, t)
	if ctx.Err() != nil {
		g.Host.Report(Done, e)
		return failed, context.Cause(ctx)
	}
	if goesOn, err := g.decide(e); !goesOn {
		g.Host.Report(Done, e)
		return failed, err
	}
	e.Restarts, e.Fruitless = g.restarts, g.fruitless
	g.Host.Report(Restarting, e)
	g.rest(ctx)
	return again, nil
}

// start prepares an attempt and its shares, and releases them.
func (g *gang) start(ctx, run context.Context, e *Attempt, t *Track) []Failure {
	var fresh []int
	for i, n := range e.Nodes {
		if g.fresh[n] {
			fresh = append(fresh, i)
		}
	}
	if failures := g.Host.Prepare(run, e, fresh); len(failures) > 0 || ctx.Err() != nil {
		t.unstarted()
		return failures
	}
	clear(g.fresh)
	g.Host.Start(run, e, t)
	if failures := t.prepared(ctx); len(failures) > 0 || ctx.Err() != nil {
		return failures
	}
	e.From = time.Now()
	t.released(e.From)
	g.Host.Report(Running, e)
	return g.Host.Release(run, e, t)
}

// stacks adds what the processes of stalled shares do.
func (g *gang) stacks(ctx context.Context, e *Attempt, failures []Failure) {
	if !slices.ContainsFunc(failures, func(f Failure) bool { return f.Kind == Stalled || f.Kind == Idle }) {
		return
	}
	all := g.Host.Stacks(ctx, e)
	for i := range failures {
		if f := &failures[i]; f.Stack == "" && f.Share >= 0 {
			f.Stack = all[f.Share]
		}
	}
}

// end waits until nothing of an attempt is left.
func (g *gang) end(ctx context.Context, e *Attempt, t *Track) {
	if t != nil {
		t.wait(endPatience)
	}
	// What was cancelled is cleaned up all the same: the next training has these nodes.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	dirty := g.Host.Clean(clean, e)
	e.To = time.Now()
	for _, f := range dirty {
		if f.Node >= 0 && f.Node < len(g.nodes) {
			g.drop(f.Node, f.Err)
		}
	}
}

// rest pauses before the next attempt.
func (g *gang) rest(ctx context.Context) {
	timer := time.NewTimer(g.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// errNoProgress ends a training whose attempts get no further.
var errNoProgress = &driver.Error{
	Op: "train", Kind: driver.ErrNoProgress, Err: errors.New("three attempts in a row have reached no new step and no new checkpoint"),
}
