package calls

import (
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
	stats  worker.Stats // as the node reports them at its end

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
	c.Started()
	now := time.Now()
	r := &running{Call: c, proc: p, output: p.output.begin(&c.Attempt), since: now, followed: now}
	members := c.Members
	if members == nil {
		members = h.alone()
	}
	request := worker.Request{
		Function: c.Function, Arg: c.Arg, Stream: c.Stream, Timeout: c.Timeout,
		Members: members, Place: c.Place, Scratch: len(c.Outputs) > 0, Stats: &r.stats,
	}
	return h.finish(r, func() (codec.Body, func(), error) {
		if c.Hold || request.Scratch { // the scratch directory is removed when its outputs are here
			return p.client.Hold(c.Context, request)
		}
		value, err := p.client.Call(c.Context, request)
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
func (h *Host) finish(r *running, wait func() (codec.Body, func(), error)) attempt.Outcome {
	o := attempt.Outcome{ExitCode: -1}
	var err error
	o.Value, o.Release, err = wait()
	o.Elapsed = r.elapsed()
	goesOn := errors.Is(err, worker.ErrAbandoned)
	o.Gone = h.leave(r.proc, goesOn)
	if err != nil {
		o.Failure = h.judge(r.Call, r.proc, err) // after which a dead process has no more output
	}
	keepErr := r.output.finish(r.Context, &o, r.stats, goesOn)
	switch {
	case o.Failure != nil:
		return o
	case keepErr != nil:
		o.Failure = attempt.Failed(attempt.Outputs, h.cfg.Runner.Secrets.Error(keepErr))
		return o
	}
	o.ExitCode = 0
	if len(r.Outputs) > 0 {
		scratch := path.Join(r.proc.scratch, worker.ScratchName(r.Place))
		o.Failure = h.cfg.Runner.Collect(r.Context, h.node, &r.Attempt, &o, scratch, scratch+worker.MarkSuffix)
	}
	return o
}
