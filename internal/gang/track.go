package gang

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/steps"
	"github.com/gputrain/gputrain/internal/watchdog"
	"github.com/gputrain/gputrain/providers/driver"
)

// If nothing happens, a gang looks at its nodes and clocks each look.
const look = 5 * time.Second

// A Track follows an attempt while it lives. Its exported methods are for the Host: they do not block, and are called from
// any goroutine.
type Track struct {
	g     *gang
	e     *Attempt
	wake  chan struct{}
	stops []func() bool

	mu      sync.Mutex
	shares  []share
	left    int       // shares that have not ended
	first   time.Time // when the first share ended with success
	from    time.Time // when the attempt was released
	steps   struct{ first, last int64 }
	stall   *watchdog.Stall // nil before the release
	start   *watchdog.Stall // the same for StartTimeout
	idle    idleClocks
	faults  []Failure
	unheard bool // some node cannot be reached
}

// A share is one process, or one launcher, of an attempt.
type share struct {
	prepared, ended, spoke bool
	failure                *Failure
	step                   int64
	behind                 time.Time // since when, or zero
	lagged                 bool      // it was reported
}

// A share that is more than lagSteps behind the first for lagTime lags.
const (
	lagSteps = 2
	lagTime  = time.Minute
)

func newTrack(g *gang, e *Attempt) *Track {
	t := &Track{g: g, e: e, wake: make(chan struct{}, 1), shares: make([]share, g.Shares), left: g.Shares}
	for _, n := range e.Nodes {
		t.stops = append(t.stops, context.AfterFunc(n.Context(), t.poke))
	}
	return t
}

func (t *Track) close() {
	for _, stop := range t.stops {
		stop()
	}
}

// poke has the gang look.
func (t *Track) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Prepared notes that the process of a share exists, and waits for its release.
func (t *Track) Prepared(share int) {
	t.mu.Lock()
	t.shares[share].prepared = true
	t.mu.Unlock()
	t.poke()
}

// Step notes a step that a share has reported.
func (t *Track) Step(share int, s steps.Step) {
	now := time.Now()
	t.mu.Lock()
	one := &t.shares[share]
	one.step, one.spoke = max(one.step, s.N), true
	if t.steps.first == 0 {
		t.steps.first = s.N
	}
	t.steps.last = max(t.steps.last, s.N)
	if t.stall != nil {
		t.stall.Step(s.N, now)
	}
	t.mu.Unlock()
	t.g.Host.Reported(t.e, share, s)
}

// Checkpoint notes a checkpoint of a step. It says more than the program only if that has not reported the step.
func (t *Track) Checkpoint(step int64) {
	t.mu.Lock()
	known := step <= t.steps.last
	t.mu.Unlock()
	if !known {
		t.Step(0, steps.Step{N: step, Rank: -1})
	}
}

// Output notes that a share has printed something.
func (t *Track) Output(share int) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shares[share].spoke = true
	if t.stall != nil {
		t.stall.Output(now)
	}
}

// Grew notes that a checkpoint grows.
func (t *Track) Grew() {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stall != nil {
		t.stall.Grew(now)
	}
}

// Sample notes what a device of a node does: its utilization in percent, and the memory that is in use.
func (t *Track) Sample(node int, device string, utilization, memoryGiB float64) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle.sample(deviceOf{node, device}, utilization, memoryGiB, now)
}

// Fault notes a fault that ends the attempt.
func (t *Track) Fault(f Failure) {
	f.At = time.Now()
	t.mu.Lock()
	f.Step = t.steps.last
	t.faults = append(t.faults, f)
	t.mu.Unlock()
	t.poke()
}

// Failed notes the failure of a share whose end takes longer, since its files are brought.
func (t *Track) Failed(share int, f Failure) {
	t.mu.Lock()
	one := &t.shares[share]
	if f.Step = one.step; one.failure == nil && !one.ended {
		one.failure = &f
	}
	t.mu.Unlock()
	t.poke()
}

// Ended notes the end of a share: a success if the failure is nil.
func (t *Track) Ended(share int, f *Failure) {
	t.mu.Lock()
	one := &t.shares[share]
	if !one.ended {
		one.ended = true
		t.left--
	}
	if f != nil {
		f.Step = one.step
		if f.At.IsZero() {
			f.At = time.Now()
		}
	} else if t.first.IsZero() {
		t.first = time.Now()
	}
	one.failure = f
	t.mu.Unlock()
	t.poke()
}

// unstarted notes that no share of the attempt runs.
func (t *Track) unstarted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.shares {
		t.shares[i].ended = true
	}
	t.left = 0
}

// released starts the clocks.
func (t *Track) released(from time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.from = from
	t.stall = watchdog.NewStall(t.g.StallTimeout, now)
	t.stall.Starts(t.g.startTimeout())
	t.start = watchdog.NewStall(t.g.startTimeout(), now)
	t.idle = idleClocks{timeout: t.g.idleTimeout()}
}

// node returns the node of a share.
func (t *Track) node(share int) int { return share * len(t.e.Nodes) / max(len(t.shares), 1) }

// await calls done whenever something has happened, and every few seconds, until it reports true, or ctx ends.
func (t *Track) await(ctx context.Context, done func(now time.Time) bool) {
	timer := time.NewTimer(look)
	defer timer.Stop()
	for {
		t.mu.Lock()
		over := done(time.Now())
		t.mu.Unlock()
		if over {
			return
		}
		select {
		case <-t.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		timer.Reset(look)
	}
}

// prepared waits until every share waits for its release, or one has failed.
func (t *Track) prepared(ctx context.Context) (failures []Failure) {
	t.await(ctx, func(time.Time) bool {
		failures = t.failures()
		ready := 0
		for _, one := range t.shares {
			if one.prepared || one.ended {
				ready++
			}
		}
		return len(failures) > 0 || ready == len(t.shares)
	})
	return failures
}

// follow waits until every share has ended with success, which returns nil, or something has failed.
func (t *Track) follow(ctx context.Context) (failures []Failure) {
	t.await(ctx, func(now time.Time) bool {
		t.hear(now)
		if failures = t.failures(); len(failures) == 0 {
			failures = t.overdue(now)
			t.lag(now)
		}
		return len(failures) > 0 || t.left == 0
	})
	t.settle()
	return failures
}

// collect waits a few seconds for what else fails, and returns all of it. A node that cannot be reached may be lost, or have
// failed first, so it is waited for longer: another attempt needs it, or its loss, too.
func (t *Track) collect(ctx context.Context, known []Failure) []Failure {
	from := time.Now()
	for _, d := range []time.Duration{lossTime, collectTime} {
		timer := time.AfterFunc(d, t.poke)
		defer timer.Stop()
	}
	t.await(ctx, func(now time.Time) bool {
		t.hear(now)
		passed, enough := now.Sub(from), collectTime
		if slices.ContainsFunc(t.failures(), func(f Failure) bool { return f.Kind == NodeLost }) {
			enough = lossTime
		}
		return t.left == 0 || passed >= enough && !t.unheard || passed >= unheardTime
	})
	t.settle()
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.failures()
	for _, f := range known {
		if f.Share < 0 || t.shares[f.Share].failure == nil {
			all = appendNew(all, f)
		}
	}
	return all
}

// appendNew appends a failure, unless it is that of a node whose loss is known.
func appendNew(all []Failure, f Failure) []Failure {
	for _, other := range all {
		if other.Kind == f.Kind && other.Node == f.Node && other.Share == f.Share {
			return all
		}
	}
	return append(all, f)
}

// wait waits until every share has ended.
func (t *Track) wait(bound time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	t.await(ctx, func(time.Time) bool { return t.left == 0 })
	t.settle()
}

// settle puts the steps into the attempt.
func (t *Track) settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.e.First, t.e.Last = t.steps.first, max(t.e.Last, t.steps.last)
}

// failures returns what has failed. The loss of a node is one failure, however many shares it had. t.mu is held.
func (t *Track) failures() (all []Failure) {
	lost := map[int]bool{}
	add := func(f Failure) {
		if f.Kind == NodeLost && f.Node >= 0 {
			if lost[f.Node] {
				return
			}
			lost[f.Node] = true
		}
		all = append(all, f)
	}
	for _, f := range append(Lost(t.e), t.faults...) {
		add(f)
	}
	for _, one := range t.shares {
		if one.failure != nil && !one.failure.WasEnded() {
			add(*one.failure)
		}
	}
	return all
}

// WasEnded reports whether a share only ended because the gang, or its caller, ended it.
func (f *Failure) WasEnded() bool {
	return f.Kind == Own && f.Why != nil && f.Why.Cause == attempt.Cancelled
}

// hear stops the clocks while a node cannot be reached. t.mu is held.
func (t *Track) hear(now time.Time) {
	unheard := false
	for _, n := range t.e.Nodes {
		unheard = unheard || n.Context().Err() == nil && !n.IsUp() // one that is given up says nothing more
	}
	if unheard == t.unheard {
		return
	}
	t.unheard = unheard
	if t.stall == nil { // the clocks do not run yet
		return
	}
	for _, clock := range []*watchdog.Stall{t.stall, t.start} {
		if unheard {
			clock.Pause(now)
		} else {
			clock.Resume(now)
		}
	}
	t.idle.reset(now)
}

// lag reports shares that are behind the first. Those that report no steps are not known to be. t.mu is held.
func (t *Track) lag(now time.Time) {
	for i := range t.shares {
		one := &t.shares[i]
		behind := t.steps.last - one.step
		switch {
		case one.step == 0 || one.ended || behind <= lagSteps:
			one.behind, one.lagged = time.Time{}, false
		case one.behind.IsZero():
			one.behind = now
		case !one.lagged && now.Sub(one.behind) >= lagTime:
			one.lagged = true
			t.g.Host.Lagged(t.e, i, behind)
		}
	}
}

// overdue returns what the watchdogs say. t.mu is held.
func (t *Track) overdue(now time.Time) []Failure {
	if t.unheard {
		return nil
	}
	if t.started() {
		t.start = watchdog.NewStall(-1, now)
	}
	if at, ok := t.start.Deadline(); ok && !now.Before(at) {
		awaited := "the program's first step or line of output"
		if t.g.stepped {
			awaited = "the attempt's first step"
		}
		return t.stalled(fmt.Errorf("StartTimeout: %s has not come %v after the start", awaited, t.g.startTimeout()))
	}
	if at, ok := t.stall.Deadline(); ok && !now.Before(at) {
		awaited := "the attempt's first step, and it has printed nothing"
		if last, any := t.stall.Reported(); any {
			awaited = fmt.Sprintf("a step after %d, or a checkpoint that grows,", last)
		}
		return t.stalled(fmt.Errorf("StallTimeout: it has waited for %s for %v", awaited, t.stall.Since(now).Round(time.Second)))
	}
	if !t.first.IsZero() && t.g.StallTimeout >= 0 && now.Sub(t.first) >= t.stall.Limit() {
		return t.stalled(fmt.Errorf("StallTimeout: it runs on, %v after another one has ended with success", t.stall.Limit()))
	}
	if d, since, ok := t.idle.due(now); ok {
		f := Failure{Kind: Idle, Node: d.node, Share: -1, Rank: -1, At: now, Step: t.steps.last}
		where := fmt.Sprintf("accelerator %s of the gang's node %d has", d.name, d.node)
		if t.idle.nodes(now) > 1 { // which of them the others waited for, or whether any, is not known
			f.Node, where = -1, "accelerators of several of the gang's nodes have"
		}
		f.Err = &driver.Error{Op: "train", Kind: driver.ErrIdle, Err: fmt.Errorf("%s done nothing for %v", where, now.Sub(since).Round(time.Second))}
		return []Failure{f}
	}
	return nil
}

// started reports whether the program has begun to work. A step needs all processes, of which only one may report it.
// Before the first step of any attempt, output has to do.
func (t *Track) started() bool {
	if t.g.stepped {
		return t.steps.last > 0
	}
	for _, one := range t.shares {
		if one.spoke || one.ended {
			return true
		}
	}
	return false
}

// stalled returns a failure for each share that runs.
func (t *Track) stalled(why error) (failures []Failure) {
	now := time.Now()
	for i := range t.shares {
		one := &t.shares[i]
		if one.ended {
			continue
		}
		failures = append(failures, Failure{
			Kind: Stalled, Node: t.node(i), Share: i, Rank: -1, Step: one.step, At: now,
			Err: &driver.Error{Op: "train", Kind: driver.ErrStalled, Err: why},
		})
	}
	return failures
}
