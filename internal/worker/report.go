package worker

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/steps"
)

// reportPause is the least time between two steps of a call that are sent.
const reportPause = 100 * time.Millisecond

// Report reports a step of the call whose context ctx is. It never blocks: a step that is followed by another one soon may be
// dropped, but the last one is not. Outside of a call it does nothing.
func Report(ctx context.Context, s steps.Step) {
	if ctx == nil {
		return
	}
	if m, ok := ctx.Value(metaKey{}).(*Meta); ok && m.reporter != nil {
		m.reporter.report(s.Bounded())
	}
}

// A wireStep is a step as it is sent.
type wireStep struct {
	_      struct{} `cbor:",toarray"`
	N, Of  int64
	Rank   int
	Values map[string]float64
}

// A reporter holds the newest step of a call for the client.
type reporter struct {
	d    *daemon
	call *served

	mu      sync.Mutex // taken after the daemon's
	step    steps.Step
	any     bool
	fresh   bool // the step was not sent
	waiting bool // it is about to be
	next    time.Time
}

func (r *reporter) report(s steps.Step) {
	r.mu.Lock()
	r.step, r.any, r.fresh = s, true, true
	wait, waiting := time.Until(r.next), r.waiting
	r.waiting = true
	r.mu.Unlock()
	switch {
	case waiting:
	case wait > 0:
		time.AfterFunc(wait, r.send)
	default:
		r.send()
	}
}

// send makes the client's connection, if there is one, send the newest step.
func (r *reporter) send() {
	r.d.mu.Lock()
	s := r.d.current
	r.d.mu.Unlock()
	r.mu.Lock()
	r.waiting, r.next = false, time.Now().Add(reportPause)
	r.mu.Unlock()
	if s != nil {
		s.out.enqueue(stepSource{r, s})
	}
}

// addTo adds the newest step to a connection, before the result. The daemon's lock is held.
func (r *reporter) addTo(s *session, again bool) {
	if payload := r.take(again); payload != nil {
		s.out.add(frameStep, r.call.id, payload)
	}
}

// take returns the newest step for sending, or nil if it was sent, unless it is to be sent again.
func (r *reporter) take(again bool) payload {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.any || !r.fresh && !again {
		return nil
	}
	r.fresh = false
	return raw(encodeWire(wireStep{N: r.step.N, Of: r.step.Of, Rank: r.step.Rank, Values: r.step.Values}))
}

// A stepSource sends the newest step of a call over one connection, however many were reported until its turn comes.
type stepSource struct {
	*reporter
	s *session
}

// fill makes it a source.
func (r stepSource) fill(b []byte) (frames, chunk []byte, more bool) {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if r.d.current != r.s || r.d.calls[r.call.id] != r.call || r.call.finished || r.call.quiet {
		return b, nil, false
	}
	if payload := r.take(false); payload != nil {
		b = appendFrame(b, frameStep, r.call.id, payload, 0)
	}
	return b, nil, false
}

// stepped passes a step to its call.
func (r *receiver) stepped(h frameHead) error {
	call, err := r.awaited(h)
	if call == nil {
		return cmp.Or(err, r.link.skip(h))
	}
	payload, err := r.link.payload(h)
	if err != nil {
		return err
	}
	var w wireStep
	if err := decodeWire(payload, &w); err != nil {
		return fmt.Errorf("a step of the call %d: %w", h.id, err)
	}
	r.client.mu.Lock()
	step := call.Step
	r.client.mu.Unlock()
	if step != nil {
		step(steps.Step{N: w.N, Of: w.Of, Rank: w.Rank, Values: w.Values}.Bounded())
	}
	return nil
}
