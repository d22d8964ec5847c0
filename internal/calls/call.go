package calls

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/worker"
)

// A Call is one attempt at a call of a function.
type Call struct {
	attempt.Attempt
	Function string
	Arg      codec.Body
	Stream   *worker.Stream // nil if the function has none
	// Members are the nodes of the call. Nil means this node alone.
	Members *worker.Members
	Place   worker.Place
	// Hold makes the node keep the result until Outcome.Release is called, for a later program.
	Hold bool
}

// A running is a call that runs in a process. This program has made it, or an earlier one.
type running struct {
	*Call
	proc   *process
	output *callOutput
	keeper *attempt.Keeper // nil without Outputs
	saver  *attempt.Saver  // nil without Checkpoints
	stats  worker.Stats    // as the node reports them at its end

	since    time.Time     // it cannot have begun before
	followed time.Time     // since when this program has waited for its end
	ran      time.Duration // until then, as the node reports
}

// Call makes one attempt at a call. It returns when the function has returned, or is given up.
func (h *Host) Call(c *Call) attempt.Outcome {
	p, err := h.get(c.Context)
	if err != nil {
		return attempt.Outcome{ExitCode: -1, Failure: h.judge(c, nil, err)}
	}
	if f := h.cfg.Runner.Restore(c.Context, h.node, &c.Attempt); f != nil {
		h.leave(p, false)
		return attempt.Outcome{ExitCode: -1, Failure: f}
	}
	if c.Checkpoints != nil {
		c.Place.Checkpoints, c.Place.Resume = c.Checkpoints.Node.Dir, c.Checkpoints.Resume
	}
	c.Started()
	now := time.Now()
	r := &running{Call: c, proc: p, output: p.output.begin(&c.Attempt), since: now, followed: now}
	h.keep(r, false)
	h.save(r)
	members := c.Members
	if members == nil {
		members = h.alone()
	}
	request := worker.Request{
		Function: c.Function, Arg: c.Arg, Stream: c.Stream, Timeout: c.Timeout,
		Members: members, Place: c.Place, Scratch: len(c.Outputs) > 0, Stats: &r.stats, Step: c.Stepped,
	}
	return h.finish(r, func(ctx context.Context) (codec.Body, func(), error) {
		if c.Hold || request.Scratch { // the scratch directory is removed when its outputs are here
			return p.client.Hold(ctx, request)
		}
		value, err := p.client.Call(ctx, request)
		return value, nil, err
	})
}

// elapsed returns how long the function ran, once it is over: what the node reports, as far as it can be true.
func (r *running) elapsed() time.Duration {
	ran := r.ran + time.Since(r.followed)
	if r.stats.Answered {
		ran = r.stats.Elapsed
	}
	return max(min(ran, time.Since(r.since)), 0)
}

// finish waits for the answer to a call, and brings what it printed and its output files.
func (h *Host) finish(r *running, wait func(ctx context.Context) (codec.Body, func(), error)) attempt.Outcome {
	o := attempt.Outcome{ExitCode: -1}
	ctx, stop := attempt.Watch{Ask: r.proc.client.Ping, Stacks: r.proc.stacks}.Start(r.Context, h.node, &r.Attempt)
	var err error
	o.Value, o.Release, err = wait(ctx)
	stop()
	ended := time.Now()
	o.Elapsed = r.elapsed()
	goesOn := errors.Is(err, worker.ErrAbandoned)
	o.Gone = h.leave(r.proc, goesOn)
	if err != nil {
		if o.Failure = h.judgeStall(ctx, r.Call, err); o.Failure == nil {
			o.Failure = h.judge(r.Call, r.proc, err) // after which a dead process has no more output
		}
		r.Judged(o.Failure, ended)
	}
	switch keepErr := r.output.finish(r.Context, &o, r.stats, goesOn); {
	case o.Failure != nil:
	case keepErr != nil:
		o.Failure = attempt.Failed(attempt.Outputs, h.cfg.Runner.Secrets.Error(keepErr))
		r.Judged(o.Failure, ended)
	default:
		o.ExitCode = 0
	}
	r.keeper.Finish(&o, true) // a call that was not made has left nothing
	r.saver.Finish(o.Failure, true)
	h.kept(r)
	return o
}

// keep begins to bring the output files of a call.
func (h *Host) keep(r *running, resumed bool) {
	if len(r.Outputs) == 0 {
		return
	}
	h.mu.Lock()
	r.proc.keeping++
	h.mu.Unlock()
	r.keeper = h.cfg.Runner.Keep(r.Context, h.node, &r.Attempt, resumed, func() (scratch, marker string) {
		scratch = path.Join(r.proc.scratch, worker.ScratchName(r.Place))
		return scratch, scratch + worker.MarkSuffix
	})
	r.keeper.Begin()
}

// save begins to copy the checkpoints of a call.
func (h *Host) save(r *running) {
	r.saver = h.cfg.Runner.Save(r.Context, &r.Attempt)
	r.saver.Begin()
}

// kept records that the output files of a call have come.
func (h *Host) kept(r *running) {
	if r.keeper == nil {
		return
	}
	h.mu.Lock()
	r.proc.keeping--
	h.mu.Unlock()
	h.tidy(r.proc)
}

// tidy notes what a dead process has left, when no call brings files of it any more.
func (h *Host) tidy(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.dead && p.keeping == 0 {
		p.dead = false // once
		h.left.add(p.scratch)
	}
}
