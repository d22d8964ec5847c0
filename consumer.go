package gputrain

import (
	"context"
	"iter"
	"reflect"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/worker"
)

// A Consumer is a function that takes a stream of values: batches, records.
type Consumer[In, Out any] struct{ calls calls }

// ConsumerFunc registers a function that takes a stream of values, as [Func]
// registers one that takes a value. In and Out travel as they do there.
//
// The sequence ends after the caller's last value, and when ctx ends: a value
// that the function returns after that does not count. It can be used once.
func ConsumerFunc[In, Out any](name string, f func(ctx context.Context, ins iter.Seq[In]) (Out, error)) *Consumer[In, Out] {
	return &Consumer[In, Out]{register(name, worker.CallerPosition(1), func(ctx context.Context, _ codec.Body, s *worker.Stream) (codec.Body, error) {
		var cut error
		out, err := f(ctx, nodeInputs[In](ctx, name, s, &cut))
		if err := streamError(ctx, err, cut); err != nil {
			return codec.Body{}, err
		}
		return result(name, out)
	}, reflect.TypeFor[In](), reflect.TypeFor[Out]())}
}

// Name returns the name that the function is registered under.
func (f *Consumer[In, Out]) Name() string { return f.calls.name }

// With returns the function with options for its calls, as [Function.With] does.
// A failure is retried only while the function has taken no value.
func (f *Consumer[In, Out]) With(t Task) *Consumer[In, Out] {
	return &Consumer[In, Out]{f.calls.with(t)}
}

// Run calls the function on one node with the values of ins, and returns what
// it returned, or the error that [Function.Run] would.
//
// Values are taken from ins as fast as the function takes them: no more than
// [StreamItems] or [StreamBytes] ahead. Each reaches the function once, also
// where the connection breaks meanwhile, and is the caller's own again when ins
// is asked for the next one. A function that returns early ends ins at its next
// value. A panic in ins cancels the function, and goes on once that is done.
//
// A node that is lost is replaced by another one only while the function has
// taken no value; later it is [ErrNodeLost].
func (f *Consumer[In, Out]) Run(c *Compute, ins iter.Seq[In]) (Out, error) {
	var zero Out
	s, err := newStreamCall(c, f.calls, nothing)
	if err != nil {
		return zero, err
	}
	defer s.close()
	for in := range ins {
		ok, err := send(s, in)
		if err != nil {
			return zero, err
		}
		if !ok {
			break
		}
	}
	s.CloseSend()
	r := s.wait()
	if r.Err != nil {
		return zero, r.Err
	}
	return (&Function[In, Out]{f.calls}).Value(r)
}

// nothing is the argument of functions whose input is a stream.
func nothing() (codec.Body, error) { return codec.Marshal(nil) }
