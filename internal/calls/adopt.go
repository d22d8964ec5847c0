package calls

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/worker"
)

// A Claim is a call of an earlier program whose outcome is wanted.
type Claim struct {
	Call *Call
	// Since is a time before which the call cannot have begun.
	Since time.Time
	// Done is given the outcome.
	Done func(attempt.Outcome)
}

// Adopt resumes a worker that an earlier program has started. It asks claim for each call that it finds there: a call that
// is not claimed, for which claim returns nil, is dropped. The worker gets no new calls, since its program may be another
// one, and ends with the last of its calls.
func (h *Host) Adopt(w Worker, claim func(worker.HeldCall) *Claim) {
	ctx, p := h.newProcess(w.Name)
	p.retired, p.calls = true, 1
	h.mu.Lock()
	h.starts = max(h.starts, w.Starts)
	h.former = append(h.former, p)
	h.mu.Unlock()
	divided := make(chan struct{}) // closed when it is known to which calls its output belongs
	h.cfg.Go(func() {
		p.exit, p.exitErr = h.node.Supervisor().Resume(ctx, supervisor.Spec{ID: p.name, Grace: time.Second}, time.Time{}, supervisor.Sinks{
			Stdout: heldWriter{p.output.streams[0], divided}, Stderr: heldWriter{p.output.streams[1], divided}, Live: h.cfg.Runner.Printer.Live(),
		})
		<-divided
		p.output.end()
		h.buried(p)
		close(p.exited)
	})
	hello := h.hello(p)
	hello.Adopt = true
	client, err := worker.Dial(ctx, h.dialer(w.Binary, p.socket), hello)
	if err != nil {
		close(divided)
		p.cancel()
		<-p.exited
		return
	}
	p.client = client
	claimed := p.claimAll(claim)
	close(divided)
	close(p.ready)
	h.cfg.Go(func() {
		<-p.exited
		client.Fail(errors.New(p.describeExit()))
	})
	for _, c := range claimed {
		h.collect(c)
	}
	h.leave(p, false) // ends it if no call was claimed
}

// A claimed call is a running one that an earlier program has made.
type claimedCall struct {
	running
	id   uint64
	done func(attempt.Outcome)
}

// claimAll divides what a worker has printed among the calls that were found in it, and returns those that are claimed.
func (p *process) claimAll(claim func(worker.HeldCall) *Claim) (claimed []*claimedCall) {
	var found []foundCall
	for _, held := range p.client.Held() {
		var c *Claim
		if !held.Stream {
			c = claim(held)
		}
		if c == nil {
			p.client.Drop(held.ID)
			found = append(found, foundCall{HeldCall: held})
			continue
		}
		c.Call.Place = held.Place
		out := p.output.newCall(&c.Call.Attempt)
		claimed = append(claimed, &claimedCall{
			running: running{Call: c.Call, proc: p, output: out, since: c.Since, followed: time.Now(), ran: held.Ran},
			id:      held.ID, done: c.Done,
		})
		found = append(found, foundCall{held, out})
	}
	p.output.resume(found)
	return claimed
}

// collect waits for a call of an earlier program in the background.
func (h *Host) collect(c *claimedCall) {
	h.mu.Lock()
	c.proc.calls++
	h.mu.Unlock()
	h.keep(&c.running, true)
	h.save(&c.running)
	h.cfg.Go(func() {
		c.done(h.finish(&c.running, func(ctx context.Context) (codec.Body, func(), error) {
			return c.proc.client.CollectHold(ctx, c.id, worker.Collection{Timeout: c.Timeout, Stats: &c.stats, Step: c.Stepped})
		}))
	})
}

// A heldWriter holds back what is written until a channel is closed.
type heldWriter struct {
	w     io.Writer
	until <-chan struct{}
}

func (h heldWriter) Write(p []byte) (int, error) {
	<-h.until
	return h.w.Write(p)
}
