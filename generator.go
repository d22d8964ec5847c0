package gputrain

import (
	"context"
	"iter"
	"reflect"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/worker"
)

// A Generator is a function that yields values as it goes: losses, samples,
// checkpoints.
type Generator[In, Out any] struct{ calls calls }

// GeneratorFunc registers a function that yields values, as [Func] registers
// one that returns a value. In and Out travel as they do there, but what was
// yielded is the function's own again once yield has returned.
//
// yield waits while the caller is behind by more than [StreamItems] or
// [StreamBytes]. It returns false once nobody wants more: the caller has left
// its loop, its context has ended, or the pool. ctx then ends too, and the
// function should return.
func GeneratorFunc[In, Out any](name string, f func(ctx context.Context, in In, yield func(Out) bool) error) *Generator[In, Out] {
	return &Generator[In, Out]{register(name, worker.CallerPosition(1), func(ctx context.Context, arg codec.Body, s *worker.Stream) (codec.Body, error) {
		in, err := argument[In](name, arg)
		if err != nil {
			return codec.Body{}, err
		}
		var cut error
		err = f(ctx, in, nodeYield[Out](ctx, name, s, &cut))
		return codec.Body{}, streamError(ctx, err, cut)
	}, reflect.TypeFor[In](), reflect.TypeFor[Out]())}
}

// Name returns the name that the function is registered under.
func (g *Generator[In, Out]) Name() string { return g.calls.name }

// With returns the function with options for its calls, as [Function.With] does.
// A failure is retried only while no value has been yielded.
func (g *Generator[In, Out]) With(t Task) *Generator[In, Out] {
	return &Generator[In, Out]{g.calls.with(t)}
}

// Run calls the function on one node, and yields its values in order as they
// arrive, each once: a connection that breaks meanwhile is opened again, and
// the stream goes on where it was. How the function failed is yielded at the
// end, with the zero value, as the [*TaskError] that [Function.Run] returns. A
// node that is lost is replaced by another one only while no value has been
// yielded; later it is [ErrNodeLost].
//
// Leaving the loop cancels the function, and returns when that is done on the
// node. Run holds one slot from the start of the loop to its end.
func (g *Generator[In, Out]) Run(c *Compute, in In) iter.Seq2[Out, error] {
	return func(yield func(Out, error) bool) {
		var zero Out
		s, err := newStreamCall(c, g.calls, func() (codec.Body, error) { return codec.Marshal(in) })
		if err != nil {
			yield(zero, err)
			return
		}
		defer s.close()
		s.CloseSend()
		if !receiveAll(s, yield) {
			return
		}
		if r := s.wait(); r.Err != nil {
			yield(zero, r.Err)
		}
	}
}
