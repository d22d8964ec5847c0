package gputrain

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/worker"
)

// StreamItems and StreamBytes are how far the two ends of a stream may be
// apart: who yields waits while so many values, or values of so many bytes, have
// not been taken by the other end. One value may always be on its way, however
// large it is.
const (
	StreamItems = worker.StreamItems
	StreamBytes = worker.StreamBytes
)

// A streamCall is the call of a function with a stream: one task, which holds
// one slot of one node until the function has returned.
type streamCall struct {
	*batch
	*worker.Stream
	function string
	sent     int
}

// newStreamCall submits the call of a function with a stream.
func newStreamCall(c *Compute, of calls, marshal func() (codec.Body, error)) (*streamCall, error) {
	s := worker.NewStream()
	b, err := c.batch([]Task{of.task(marshal, s)})
	if err != nil {
		return nil, err
	}
	b.submit()
	return &streamCall{batch: b, Stream: s, function: of.name}, nil
}

// over is closed when there is nothing more to send, and nothing to receive
// but what is there.
func (s *streamCall) over() <-chan struct{} { return s.units[0].over }

// wait returns how the call ended.
func (s *streamCall) wait() Result { return <-s.results }

// send sends a value of the caller's, and reports false once the call is over.
// A value that cannot be sent is an error.
func send[In any](s *streamCall, in In) (bool, error) {
	b, err := codec.Marshal(in)
	if err != nil {
		return false, &Error{Op: "call " + s.function, Kind: ErrInvalid, Err: fmt.Errorf("input %d: %w", s.sent, err)}
	}
	s.sent++
	return s.Send(s.over(), b.Detach()), nil
}

// receive returns what the function has yielded next. It is false when there
// is no more.
func receive[Out any](s *streamCall) (out Out, ok bool, err error) {
	b, ok := s.Receive(s.over())
	if !ok {
		return out, false, nil
	}
	if err := codec.Unmarshal(b, &out); err != nil {
		return out, false, fmt.Errorf("value of %s: %w", s.function, err)
	}
	return out, true, nil
}

// receiveAll yields what the function yields. It is false where the loop was left,
// or a value could not be read: then there is nothing more to yield.
func receiveAll[Out any](s *streamCall, yield func(Out, error) bool) bool {
	for {
		out, ok, err := receive[Out](s)
		switch {
		case err != nil:
			var zero Out
			yield(zero, err)
			return false
		case !ok:
			return true
		case !yield(out, nil):
			return false
		}
	}
}

// nodeInputs is the sequence of a stream's inputs as the function on the node
// sees it. cut is set where it ended early.
func nodeInputs[In any](ctx context.Context, name string, s *worker.Stream, cut *error) func(yield func(In) bool) {
	return func(yield func(In) bool) {
		for i := 0; ; i++ {
			if *cut = ctx.Err(); *cut != nil {
				return
			}
			b, ok := s.Receive(ctx.Done())
			if !ok {
				*cut = ctx.Err()
				return
			}
			var in In
			if err := codec.Unmarshal(b, &in); err != nil {
				*cut = fmt.Errorf("input %d of %s: %w", i, name, err)
				return
			}
			if !yield(in) {
				return
			}
		}
	}
}

// nodeYield is what the function on the node calls for each value. cut is set
// where a value could not be sent.
func nodeYield[Out any](ctx context.Context, name string, s *worker.Stream, cut *error) func(Out) bool {
	return func(out Out) bool {
		if *cut != nil {
			return false
		}
		b, err := codec.Marshal(out)
		if err != nil {
			*cut = fmt.Errorf("value of %s: %w", name, err)
			return false
		}
		if !s.Send(ctx.Done(), b.Detach()) { // the function may use its memory again
			*cut = ctx.Err()
			return false
		}
		return true
	}
}

// streamError is how a function with a stream has ended. What it makes of a
// stream that was cut, or after the end of its context, is no success; and what
// cut the stream, other than the context, is the reason of all that followed.
func streamError(ctx context.Context, err error, cuts ...error) error {
	for _, cut := range cuts {
		if cut != nil && !errors.Is(cut, ctx.Err()) {
			return cut
		}
	}
	return cmp.Or(err, ctx.Err())
}
