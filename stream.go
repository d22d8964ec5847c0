package gputrain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"runtime"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/letgo"
	"github.com/gputrain/gputrain/internal/worker"
)

// A streamCall is the call of a function with a stream: one task, which holds
// one slot of one node until the function has returned.
type streamCall struct {
	*batch
	*worker.Stream
	function string
	sent     int
	// over is closed when there is nothing more to send, and nothing more to receive than what has arrived.
	over <-chan struct{}
}

// newStreamCall submits the call of a function with a stream.
func newStreamCall(c *Compute, of callee, marshal func() (codec.Body, error)) (*streamCall, error) {
	s := worker.NewStream()
	b, err := c.batch([]Task{of.task(marshal, s)})
	if err != nil {
		return nil, err
	}
	b.submit()
	return &streamCall{batch: b, Stream: s, function: of.name, over: letgo.Over(&b.caller, c.p.background.Go, b.units[0].Over())}, nil
}

// wait returns the result of the call.
func (s *streamCall) wait() Result {
	<-s.over
	return s.next()
}

// leave ends the call.
func (s *streamCall) leave() {
	s.Batch.Cancel()
	<-s.over
	s.batch.leave()
}

// send sends a value of the caller's, and reports false once the call is over.
// A value that cannot be sent is an error.
func send[In any](s *streamCall, in In) (bool, error) {
	b, err := codec.Marshal(in)
	if err != nil {
		return false, &Error{Op: "call " + s.function, Kind: ErrInvalid, Err: fmt.Errorf("input %d: %w", s.sent, err)}
	}
	s.sent++
	return s.Send(s.over, b.Detach()), nil
}

// receive returns what the function has yielded next. It is false when there
// is no more.
func receive[Out any](s *streamCall) (out Out, ok bool, err error) {
	b, ok := s.Receive(s.over)
	if !ok {
		return out, false, nil
	}
	if err := codec.Unmarshal(b, &out); err != nil {
		return out, false, fmt.Errorf("value of %s: %w", s.function, err)
	}
	return out, true, nil
}

// receiveAll yields what the function yields. It is false if the loop was left,
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
// sees it. cut is set if it ended early.
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
// if a value could not be sent.
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

// streamError returns how a function with a stream ended. A function whose stream was cut, or whose
// context has ended, has not succeeded. If something other than the context cut the stream, that is
// the reason for all that followed.
func streamError(ctx context.Context, err error, cuts ...error) error {
	for _, cut := range cuts {
		if cut != nil && !errors.Is(cut, ctx.Err()) {
			return cut
		}
	}
	return cmp.Or(err, ctx.Err())
}

// A Generator is a function that yields values as it goes: losses, samples,
// checkpoints.
type Generator[In, Out any] struct{ callee callee }

// GeneratorFunc registers a function that yields values, as [Func] registers one that returns a
// value. In and Out travel as they do there, but the function may change a value once yield has
// returned.
//
// yield blocks while 64 values, or values of 4 MiB, have not been taken by the caller. One value may always be on its way,
// however large it is. yield returns false once no more values are wanted: the caller has left its loop, its context has
// ended, or the pool has. ctx then ends too, and the function should return.
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
func (g *Generator[In, Out]) Name() string { return g.callee.name }

// With returns the function with options for its calls, as [Function.With] does.
// A failure is retried only while no value has been yielded.
func (g *Generator[In, Out]) With(t Task) *Generator[In, Out] {
	return &Generator[In, Out]{g.callee.with(t)}
}

// Run calls the function on one node, and yields its values in order as they arrive, each once. If
// the connection breaks meanwhile, it is opened again, and the stream goes on where it was. If the
// function failed, the last iteration has the zero value and the [*TaskError] that [Function.Run]
// returns. A node that is lost is replaced by another one only while no value has been yielded;
// later it is [ErrNodeLost].
//
// Leaving the loop cancels the function, and returns when that is done on the
// node. Run holds one slot from the start of the loop to its end.
func (g *Generator[In, Out]) Run(c *Compute, in In) iter.Seq2[Out, error] {
	return func(yield func(Out, error) bool) {
		var zero Out
		s, err := newStreamCall(c, g.callee, func() (codec.Body, error) { return codec.Marshal(in) })
		if err != nil {
			yield(zero, err)
			return
		}
		defer s.leave()
		s.CloseSend()
		if !receiveAll(s, yield) {
			return
		}
		if r := s.wait(); r.Err != nil {
			yield(zero, r.Err)
		}
	}
}

// A Consumer is a function that takes a stream of values: batches, records.
type Consumer[In, Out any] struct{ callee callee }

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
func (f *Consumer[In, Out]) Name() string { return f.callee.name }

// With returns the function with options for its calls, as [Function.With] does.
// A failure is retried only while the function has taken no value.
func (f *Consumer[In, Out]) With(t Task) *Consumer[In, Out] {
	return &Consumer[In, Out]{f.callee.with(t)}
}

// Run calls the function on one node with the values of ins, and returns what
// it returned, or the error that [Function.Run] would.
//
// Values are taken from ins as fast as the function takes them: at most 64 values, or 4 MiB of
// them, ahead. Each reaches the function once, also if the connection breaks meanwhile. The caller
// may change a value when ins is asked for the next one. A function that returns early ends ins at
// its next value. A panic in ins cancels the function, and goes on once that is done.
//
// A node that is lost is replaced by another one only while the function has
// taken no value; later it is [ErrNodeLost].
func (f *Consumer[In, Out]) Run(c *Compute, ins iter.Seq[In]) (Out, error) {
	var zero Out
	s, err := newStreamCall(c, f.callee, nothing)
	if err != nil {
		return zero, err
	}
	defer s.leave()
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
	return (&Function[In, Out]{f.callee}).Value(r)
}

// nothing is the argument of functions whose input is a stream.
func nothing() (codec.Body, error) { return codec.Marshal(nil) }

// A Pipe is a function that takes a stream of values and yields values as it
// goes.
type Pipe[In, Out any] struct{ callee callee }

// PipeFunc registers a function that takes and yields values: a
// [ConsumerFunc] and a [GeneratorFunc] in one.
func PipeFunc[In, Out any](name string, f func(ctx context.Context, ins iter.Seq[In], yield func(Out) bool) error) *Pipe[In, Out] {
	return &Pipe[In, Out]{register(name, worker.CallerPosition(1), func(ctx context.Context, _ codec.Body, s *worker.Stream) (codec.Body, error) {
		var cutIn, cutOut error
		err := f(ctx, nodeInputs[In](ctx, name, s, &cutIn), nodeYield[Out](ctx, name, s, &cutOut))
		return codec.Body{}, streamError(ctx, err, cutIn, cutOut)
	}, reflect.TypeFor[In](), reflect.TypeFor[Out]())}
}

// Name returns the name that the function is registered under.
func (p *Pipe[In, Out]) Name() string { return p.callee.name }

// With returns the function with options for its calls, as [Function.With] does.
// A failure is retried only while no value has been taken or yielded.
func (p *Pipe[In, Out]) With(t Task) *Pipe[In, Out] {
	return &Pipe[In, Out]{p.callee.with(t)}
}

// Run calls the function on one node with the values of ins, and yields its
// values as [Generator.Run] does. ins runs in a goroutine of its own, beside
// the loop, and is asked for values as [Consumer.Run] asks. Run returns when
// both are over: an ins that waits for something must end when the loop does.
func (p *Pipe[In, Out]) Run(c *Compute, ins iter.Seq[In]) iter.Seq2[Out, error] {
	return func(yield func(Out, error) bool) {
		var zero Out
		s, err := newStreamCall(c, p.callee, nothing)
		if err != nil {
			yield(zero, err)
			return
		}
		feed := startFeed(s, ins)
		defer feed.end()
		defer s.leave()
		if !receiveAll(s, yield) {
			return
		}
		r := s.wait()
		feed.end()
		switch {
		case feed.err != nil:
			yield(zero, feed.err)
		case r.Err != nil:
			yield(zero, r.Err)
		}
	}
}

// A feed is the goroutine that sends a pipe's inputs.
type feed struct {
	done     chan struct{}
	err      error // a value that cannot be sent
	panicked bool
	panic    any
}

func startFeed[In any](s *streamCall, ins iter.Seq[In]) *feed {
	f := &feed{done: make(chan struct{}), panicked: true}
	go func() { // end waits for it
		defer close(f.done)
		defer func() {
			if f.panicked { // or it called runtime.Goexit: then there is nothing to recover
				f.panic = recover()
				s.Cancel()
			}
		}()
		for in := range ins {
			ok, err := send(s, in)
			if err != nil {
				f.err = err
				s.Cancel()
			}
			if !ok {
				break
			}
		}
		f.panicked = false
		s.CloseSend()
	}()
	return f
}

// end waits for the goroutine. If ins panicked, end panics with the same value.
func (f *feed) end() {
	<-f.done
	if !f.panicked {
		return
	}
	f.panicked = false // once
	if f.panic == nil {
		runtime.Goexit() // as ins did
	}
	panic(f.panic)
}
