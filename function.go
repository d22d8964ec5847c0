package gputrain

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"sync"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/worker"
)

// A Function is a Go function that runs on nodes: the program's own code, with
// what goes in and what comes back checked by the compiler.
type Function[In, Out any] struct{ name string }

// Func registers a function under a name. Call it at package level, so that
// the program knows the function here and on every node, and call [Init] first
// in main. The name survives a rename of the Go function; it is made of
// letters, digits and ._/- and is used once in a program.
//
// In and Out travel as data: exported fields of structs, slices, maps,
// numbers (NaN included), strings, []byte, time.Time. Nil and empty are told
// apart. Where nothing goes in, In is struct{}. Channels, functions and cyclic values cannot travel; interfaces
// arrive as plain data. A name used twice, or a type that cannot travel, is an
// error from the first call.
func Func[In, Out any](name string, f func(context.Context, In) (Out, error)) *Function[In, Out] {
	worker.RegisterAt(name, worker.CallerPosition(1), func(ctx context.Context, arg []byte) ([]byte, error) {
		var in In
		if err := codec.Unmarshal(arg, &in); err != nil {
			return nil, fmt.Errorf("argument of %s: %w", name, err)
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		data, err := codec.Marshal(out)
		if err != nil {
			return nil, fmt.Errorf("result of %s: %w", name, err)
		}
		return data, nil
	})
	for _, t := range []reflect.Type{reflect.TypeFor[In](), reflect.TypeFor[Out]()} {
		if err := codec.Check(t); err != nil {
			refuse(name, err)
		}
	}
	return &Function[In, Out]{name: name}
}

// refused holds the functions whose types cannot travel.
var refused struct {
	sync.Mutex
	errs map[string]error
}

func refuse(name string, err error) {
	refused.Lock()
	defer refused.Unlock()
	if refused.errs == nil {
		refused.errs = map[string]error{}
	}
	refused.errs[name] = err
}

func refusal(name string) error {
	refused.Lock()
	defer refused.Unlock()
	return refused.errs[name]
}

// Name returns the name that the function is registered under.
func (f *Function[In, Out]) Name() string { return f.name }

// Call returns a task that calls the function. The argument is read when the
// task is submitted, and encoded once.
func (f *Function[In, Out]) Call(in In) Task {
	return Task{call: &call{
		function: f.name,
		encode:   sync.OnceValues(func() ([]byte, error) { return codec.Marshal(in) }),
	}}
}

// Value returns what the function returned for a result of one of its calls,
// or the error of that call.
func (f *Function[In, Out]) Value(r Result) (Out, error) {
	var out Out
	if r.Err != nil {
		return out, r.Err
	}
	if r.function != f.name {
		return out, &Error{Op: "value", Kind: ErrInvalid, Err: fmt.Errorf("the result is of %q, not of the function %q", r.function, f.name)}
	}
	if err := codec.Unmarshal(r.value, &out); err != nil {
		return out, fmt.Errorf("result of %s: %w", f.name, err)
	}
	return out, nil
}

// Run calls the function on one node. A call that failed has the zero value,
// and a [*TaskError] that wraps what the function returned: see [RegisterError].
func (f *Function[In, Out]) Run(c *Compute, in In) (Out, error) {
	r, err := c.Run(f.Call(in))
	if err != nil {
		var zero Out
		return zero, err
	}
	return f.Value(r)
}

// Gather calls the function once for each argument and returns what came back,
// in the order of the arguments. A call that failed has the zero value, and its
// error is among those joined. Where no call could be made, the slice is empty.
func (f *Function[In, Out]) Gather(c *Compute, ins ...In) ([]Out, error) {
	tasks := make([]Task, len(ins))
	for i, in := range ins {
		tasks[i] = f.Call(in)
	}
	results, err := c.Gather(tasks...)
	return f.values(results, err)
}

// Broadcast calls the function with the same argument on every node that is
// ready, and returns what came back in rank order: the zero value where the call
// failed. The argument is encoded once. [Shard] splits it among the nodes.
func (f *Function[In, Out]) Broadcast(c *Compute, in In) ([]Out, error) {
	results, err := c.Broadcast(f.Call(in))
	return f.values(results, err)
}

// Stream calls the function once for each argument and yields what each call
// returned as it finishes, with the argument's index. A call that failed is
// yielded with the zero value and its error. Where no call could be made at all,
// that error is yielded once, with index -1. Leaving the loop cancels the rest,
// and returns when that has been done on the nodes.
func (f *Function[In, Out]) Stream(c *Compute, ins ...In) iter.Seq2[Returned[Out], error] {
	return func(yield func(Returned[Out], error) bool) {
		tasks := make([]Task, len(ins))
		for i, in := range ins {
			tasks[i] = f.Call(in)
		}
		for r, err := range c.Stream(tasks...) {
			out := Returned[Out]{Index: r.Index, Node: r.Node}
			if err == nil {
				out.Value, err = f.Value(r)
			}
			if !yield(out, err) {
				return
			}
		}
	}
}

// Returned is what one call of a function returned.
type Returned[Out any] struct {
	// Index is the argument's, and Node where the call ran.
	Index int
	Node  Node
	// Value is the zero value where the call failed.
	Value Out
}

func (f *Function[In, Out]) values(results []Result, err error) ([]Out, error) {
	outs := make([]Out, len(results))
	for i, r := range results {
		if r.Err != nil {
			continue // it is among those that err joins
		}
		v, verr := f.Value(r)
		if verr != nil {
			return outs, verr
		}
		outs[i] = v
	}
	return outs, err
}

const hintPackageLevel = "make functions with gputrain.Func at package level, so that the program knows them on every node too"

// functionReady reports why a function cannot be called at all. Everything
// here is known before anything is shipped.
func functionReady(name string) error {
	if err := worker.RegistrationError(); err != nil {
		return &Error{Op: "call " + name, Kind: ErrInvalid, Err: err}
	}
	if err := refusal(name); err != nil {
		return &Error{Op: "call " + name, Kind: ErrInvalid, Err: err}
	}
	if !slices.Contains(worker.Names(), name) {
		return &Error{Op: "call " + name, Kind: ErrUnknownFunction, Hint: hintPackageLevel}
	}
	if !initCalled.Load() {
		return &Error{Op: "call " + name, Kind: ErrNoInit,
			Hint: "make gputrain.Init() the first line of main, or of TestMain: on a node it serves the functions"}
	}
	return nil
}
