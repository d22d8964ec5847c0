package gputrain

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/worker"
)

// A Function is a Go function that runs on nodes: the program's own code, with
// what goes in and what comes back checked by the compiler.
type Function[In, Out any] struct{ calls calls }

// Func registers a function under a name. Call it at package level, so that
// the program knows the function here and on every node, and call [Init] first
// in main. The name survives a rename of the Go function; it is made of
// letters, digits and ._/- and is used once in a program. A name used twice, a
// bad name, a type that cannot travel and a missing Init are [ErrInvalid] from
// [Open], before anything is launched. A function that is registered after Init
// is unknown to the nodes: its calls are ErrInvalid, and no others.
//
// # What travels
//
// In and Out are data, and arrive as copies:
//
//   - Booleans, numbers, strings and []byte arrive as they were: NaN,
//     infinities, negative zero and strings that are not UTF-8 included. Where
//     nothing goes in, In is struct{}.
//   - Slices, maps and pointers: nil arrives nil, and empty empty. A pointer to
//     something nil arrives nil. Two pointers to one value arrive as two copies.
//     A map may have any key but a pointer.
//   - Structs travel by field. Unexported fields are not sent and arrive zero; a
//     struct that has no others is refused. A field with the tag `cbor:"-"` or
//     `json:"-"` is left out. Embedded structs travel as well.
//   - A time.Time keeps its nanoseconds and its offset from UTC, and loses its
//     zone's name. Years are 0 to 9999.
//   - A type with MarshalBinary and UnmarshalBinary, with MarshalText and
//     UnmarshalText, or with cbor's methods, is sent by these. No other code
//     runs where data is decoded, whatever the data is.
//   - An interface of type any arrives holding plain data: bool, int64, float64,
//     string, []byte, time.Time, []any or map[string]any.
//   - Channels, functions, complex numbers, uintptr, other interfaces, values
//     that contain themselves, and values nested deeper than 10000 are refused,
//     by an error that names the field.
//
// # Large values
//
// Slices of bytes and of numbers are sent as they are in memory. From 64 KiB on
// they are not copied on the way out, however large: what a call was given must
// not be changed before the call is over, nor what a function has returned
// afterwards. They are received into memory of their exact size, and only what
// has arrived of them takes memory.
//
// # What it prints
//
// What the function writes to os.Stdout and os.Stderr, by fmt, log, print, C code or a
// process that it starts, is shown by [WithOutput] under the call's name, and is in
// Result.Stdout and Stderr. All of it is there when the call returns, whether
// connections were cut or not. That is so for a call that has its node's process
// to itself. While several calls run in it, as they can with Spec.Concurrency above one,
// their output cannot be told apart: it is shown under the node's name, and is in
// no Result. What a process prints as it dies is kept too: TaskError.Tail has the end of
// its stderr. After [Attach], all of this holds for the calls that were found.
//
// Output is passed on without delay to the node's disk, where it stays until the process
// ends. A node whose disk is full loses what follows: Result.Truncated says so.
//
// # The end of a context
//
// The function's ctx ends with the caller's, with the pool, and after
// [Task.Timeout]. The caller waits for the function to return, for
// [FunctionGrace] at most. A function that goes on for longer ignores its
// context, and Go cannot end it. The caller gets its error then, and the process
// that the function runs in gets no further calls: new ones go to a fresh
// process on the same node. Calls that the old process runs besides go on to
// their end. Then, and at once where there are none, that process is ended, and
// the function with it. Its slot is not used again before that: two tasks never
// share an accelerator.
func Func[In, Out any](name string, f func(context.Context, In) (Out, error)) *Function[In, Out] {
	return &Function[In, Out]{register(name, worker.CallerPosition(1), func(ctx context.Context, arg codec.Body, _ *worker.Stream) (codec.Body, error) {
		in, err := argument[In](name, arg)
		if err != nil {
			return codec.Body{}, err
		}
		out, err := f(ctx, in)
		if err != nil {
			return codec.Body{}, err
		}
		return result(name, out)
	}, reflect.TypeFor[In](), reflect.TypeFor[Out]())}
}

// FunctionGrace is how long a function may go on after its context has ended.
// What happens then: see [Func].
const FunctionGrace = worker.DefaultGrace

func argument[In any](name string, arg codec.Body) (in In, err error) {
	if err := codec.Unmarshal(arg, &in); err != nil {
		return in, fmt.Errorf("argument of %s: %w", name, err)
	}
	return in, nil
}

func result[Out any](name string, out Out) (codec.Body, error) {
	b, err := codec.Marshal(out)
	if err != nil {
		return b, fmt.Errorf("result of %s: %w", name, err)
	}
	return b, nil
}

// Name returns the name that the function is registered under.
func (f *Function[In, Out]) Name() string { return f.calls.name }

// With returns the function with a Name, Timeout, Retries and Target for its
// calls, as [Task] has them; f stays as it is. Whatever else the task says is
// [ErrInvalid] from each call, before anything runs. A later With replaces the
// whole of an earlier one.
func (f *Function[In, Out]) With(t Task) *Function[In, Out] {
	return &Function[In, Out]{f.calls.with(t)}
}

// Call returns a task that calls the function. The argument is read when the
// task is submitted, and encoded once, however often it is sent.
func (f *Function[In, Out]) Call(in In) Task {
	return f.calls.task(func() (codec.Body, error) { return codec.Marshal(in) }, nil)
}

// Value returns what the function returned for a result of one of its calls,
// or the error of that call. Values of the same result share their large slices.
func (f *Function[In, Out]) Value(r Result) (Out, error) {
	var out Out
	if r.Err != nil {
		return out, r.Err
	}
	if r.function != f.calls.name {
		return out, &Error{Op: "value", Kind: ErrInvalid, Err: fmt.Errorf("the result is of %q, not of the function %q", r.function, f.calls.name)}
	}
	if err := codec.Unmarshal(r.value, &out); err != nil {
		return out, fmt.Errorf("result of %s: %w", f.calls.name, err)
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
// failed. The argument is encoded once and sent once to each node. [Shard] splits it among the nodes.
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
