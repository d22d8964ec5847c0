package gputrain

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/steps"
	"github.com/gputrain/gputrain/internal/watchdog"
	"github.com/gputrain/gputrain/internal/worker"
)

// A Step says how far a task has come. A command reports it by a line on its stdout or stderr:
//
//	gputrain: step=120/1000 loss=2.31
//
// The number of all steps after the slash can be left out, and so can the values, which are any words of the form
// name=number. The word rank=3 is not a value: it says which process of several reports, if one stream carries
// more than one. A program that does not own its output writes "120/1000 loss=2.31" to another file and renames it to
// $GPUTRAIN_STEPS/<rank>. A function calls [ReportStep]. A new checkpoint step-120 in Task.Checkpoints counts as step 120.
type Step struct {
	// N is the step, and Of how many there are. Of is zero if that is not known.
	N, Of int64
	// Values are what else was reported, by name: "loss". A value may be NaN or infinite. There are 64 at most, with names
	// of 64 bytes at most; others are dropped.
	Values map[string]float64
}

// ReportStep reports, from a function, how far it has come. ctx is the function's. Outside of a call it does nothing.
// It never blocks: steps that come faster than they can be sent are dropped, but the last is not.
func ReportStep(ctx context.Context, s Step) {
	worker.Report(ctx, steps.Step{N: s.N, Of: s.Of, Rank: -1, Values: s.Values})
}

// A progress records how far an attempt at a unit has come: it is the attempt's Progress. A nil one belongs to no attempt.
type progress struct {
	greatest atomic.Int64
	u        *unit
	n        *poolNode // nil without a function or logger for events
	sign     watchdog.Sign
	pace     steps.Pace // emits events
}

// watch has what an attempt reports become events, and the attempt end if it stalls.
func (u *unit) watch(n *poolNode, a *attempt.Attempt) {
	u.progress = &progress{u: u}
	a.Progress = u.progress
	if u.task.StallTimeout > 0 {
		a.Stall = attempt.NewStall(u.task.StallTimeout)
	}
	if n.p.events.seen() {
		u.progress.n, u.progress.pace.Pass = n, u.progress.pass
		n.p.events.silence.Watch(&u.progress.sign, u.progress)
	}
}

// Step records a step.
func (p *progress) Step(s steps.Step) {
	for old := p.greatest.Load(); s.N > old && !p.greatest.CompareAndSwap(old, s.N); {
		old = p.greatest.Load()
	}
	if p.n != nil {
		p.sign.Heard(time.Now())
		p.pace.Step(s)
	}
}

// pass emits the event of a step.
func (p *progress) pass(s steps.Step) {
	p.emit(Event{Kind: EventStep, Step: Step{N: s.N, Of: s.Of, Values: s.Values}})
}

// IsUp reports whether the attempt can be heard.
func (p *progress) IsUp() bool { return p.n.Node.IsUp() }

// Silent reports that the attempt has been silent.
func (p *progress) Silent(d time.Duration) {
	p.emit(Event{Kind: EventTask, State: "silent", Elapsed: d})
}

// emit emits an event of the attempt, all of whose events are shown from now on.
func (p *progress) emit(ev Event) {
	p.n.p.events.show(p.u, p.n)
	p.n.p.events.emit(p.u.eventOn(p.n, ev))
}

// Output records that something was printed.
func (p *progress) Output([]byte) {
	if p.n != nil {
		p.sign.Heard(time.Now())
	}
}

// end emits the last step's event, after which no other one comes.
func (p *progress) end() {
	if p != nil && p.n != nil {
		p.n.p.events.silence.Forget(&p.sign)
		p.pace.End()
	}
}

// last returns the greatest step that was reported, or 0.
func (p *progress) last() int64 {
	if p == nil {
		return 0
	}
	return p.greatest.Load()
}
