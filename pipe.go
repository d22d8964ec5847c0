package gputrain

import (
	"context"
	"iter"
	"reflect"
	"runtime"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/worker"
)

// A Pipe is a function that takes a stream of values and yields values as it
// goes.
type Pipe[In, Out any] struct{ calls calls }

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
func (p *Pipe[In, Out]) Name() string { return p.calls.name }

// With returns the function with options for its calls, as [Function.With] does.
// A failure is retried only while no value has been taken or yielded.
func (p *Pipe[In, Out]) With(t Task) *Pipe[In, Out] {
	return &Pipe[In, Out]{p.calls.with(t)}
}

// Run calls the function on one node with the values of ins, and yields its
// values as [Generator.Run] does. ins runs in a goroutine of its own, beside
// the loop, and is asked for values as [Consumer.Run] asks. Run returns when
// both are over: an ins that waits for something must end when the loop does.
func (p *Pipe[In, Out]) Run(c *Compute, ins iter.Seq[In]) iter.Seq2[Out, error] {
	return func(yield func(Out, error) bool) {
		var zero Out
		s, err := newStreamCall(c, p.calls, nothing)
		if err != nil {
			yield(zero, err)
			return
		}
		feed := startFeed(s, ins)
		defer feed.end()
		defer s.close()
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
			if f.panicked { // or it called runtime.Goexit, with nothing to recover
				f.panic = recover()
				s.cancel()
			}
		}()
		for in := range ins {
			ok, err := send(s, in)
			if err != nil {
				f.err = err
				s.cancel()
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

// end waits for the goroutine, and panics as ins has panicked.
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
