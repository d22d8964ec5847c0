package gputrain

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/calls"
	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/guardian"
	"github.com/gputrain/gputrain/internal/worker"
)

// A Function is a Go function of this program that runs on nodes. The compiler checks the types of
// its argument and its result.
type Function[In, Out any] struct{ callee callee }

// Func registers a function under a name. Call it at package level, so that the program knows the
// function here and on every node, and call [Init] first in main. The name does not depend on that
// of the Go function. It consists of letters, digits and ._/- and is used once in a program. A name
// used twice, a bad name, a type that cannot travel and a missing Init are [ErrInvalid] from
// [Open], before anything is launched. A function that is registered after Init is unknown to the
// nodes: its calls, and no others, are ErrInvalid.
//
// # What travels
//
// In and Out are data, and arrive as copies:
//
//   - Booleans, numbers, strings and []byte arrive as they were: NaN,
//     infinities, negative zero and strings that are not UTF-8 included. For a
//     function without an argument, In is struct{}.
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
//     runs when data is decoded, whatever the data is.
//   - An interface of type any arrives holding plain data: bool, int64, float64,
//     string, []byte, time.Time, []any or map[string]any.
//   - Channels, functions, complex numbers, uintptr, other interfaces, values
//     that contain themselves, and values nested deeper than 10000 are refused,
//     by an error that names the field.
//
// # What does not travel
//
// On a node main runs up to [Init] and no further, and the program has other arguments. So a variable
// that main sets after Init, and every flag, has the value of its declaration there, and nothing says
// so: what the function needs is its argument, as a field of In. The vet check
// github.com/gputrain/gputrain/tools/secretvet finds functions that read such variables of their main
// package.
//
// # Large values
//
// Slices of bytes and of numbers are sent as they are in memory. From 64 KiB on they are not copied
// before they are sent: do not change an argument before its call is over, nor a result after the
// function has returned it. They are received into memory of their exact size, and only what has
// arrived of them takes memory.
//
// # What it prints
//
// What the function writes to os.Stdout and os.Stderr, by fmt, log, print, C code or a process that
// it starts, is shown by [WithOutput] under the call's name, and is in Result.Stdout and Stderr.
// All of it is there when the call returns, also after cut connections. This holds for a call that
// runs alone in its node's process. If several calls run in it, as they can with Spec.Concurrency
// above one, their output cannot be told apart: it is shown under the node's name, and is in no
// Result. What a process prints as it dies is kept too: TaskError.Tail has the end of its stderr.
// After [Attach], all of this holds for the calls that were found.
//
// Output is passed on without delay to the node's disk, where it stays until the process
// ends. A node whose disk is full loses what follows: Result.Truncated says so.
//
// # The end of a context
//
// The function's ctx ends with the caller's, with the pool, and after [Task.Timeout]. The caller
// waits for the function to return, for ten seconds at most, as for a command after SIGTERM. What it
// returns after its Timeout is no result. A function that goes on for longer
// ignores its context, and Go cannot end it. The caller then gets its error, and the function's
// process gets no further calls: new ones go to a fresh process on the same node. Other calls in
// the old process run to their end. Then, or at once if there are none, that process is ended, and
// the function with it. Its slot is not used before that: two tasks never share an accelerator.
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

// Name returns the name under which the function is registered.
func (f *Function[In, Out]) Name() string { return f.callee.name }

// With returns the function with a Name, Timeout, Retries, Target, Accelerators and Critical for its
// calls, as [Task] has them; f is not changed. If the task sets another field, each call returns
// [ErrInvalid] before
// anything runs. A later With replaces the whole of an earlier one.
func (f *Function[In, Out]) With(t Task) *Function[In, Out] {
	return &Function[In, Out]{f.callee.with(t)}
}

// Call returns a task that calls the function. The argument is read when the
// task is submitted, and encoded once, however often it is sent.
func (f *Function[In, Out]) Call(in In) Task {
	return f.callee.task(func() (codec.Body, error) { return codec.Marshal(in) }, nil)
}

// Value returns what the function returned for a result of one of its calls,
// or the error of that call. Values of the same result share their large slices.
func (f *Function[In, Out]) Value(r Result) (Out, error) {
	var out Out
	if r.Err != nil {
		return out, r.Err
	}
	if r.function != f.callee.name {
		return out, &Error{Op: "value", Kind: ErrInvalid, Err: fmt.Errorf("the result is of %q, not of the function %q", r.function, f.callee.name)}
	}
	if err := codec.Unmarshal(r.value, &out); err != nil {
		return out, fmt.Errorf("result of %s: %w", f.callee.name, err)
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
// error is among those joined. If no call could be made, the slice is empty.
func (f *Function[In, Out]) Gather(c *Compute, ins ...In) ([]Out, error) {
	tasks := make([]Task, len(ins))
	for i, in := range ins {
		tasks[i] = f.Call(in)
	}
	results, err := c.Gather(tasks...)
	return f.values(results, err)
}

// Broadcast calls the function with the same argument on every node that is
// ready, and returns what came back in rank order: the zero value if the call
// failed. The argument is encoded once and sent once to each node. [Shard] splits it among the nodes.
func (f *Function[In, Out]) Broadcast(c *Compute, in In) ([]Out, error) {
	results, err := c.Broadcast(f.Call(in))
	return f.values(results, err)
}

// Stream calls the function once for each argument and yields what each call
// returned as it finishes, with the argument's index. A call that failed is
// yielded with the zero value and its error. If no call could be made at all,
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

// Returned is the result of one call of a function.
type Returned[Out any] struct {
	// Index is the argument's, and Node the node on which the call ran.
	Index int
	Node  Node
	// Value is the zero value if the call failed.
	Value Out
}

func (f *Function[In, Out]) values(results []Result, err error) ([]Out, error) {
	outs := make([]Out, len(results))
	for i, r := range results {
		if r.Err != nil {
			continue // err joins its error
		}
		v, verr := f.Value(r)
		if verr != nil {
			return outs, verr
		}
		outs[i] = v
	}
	return outs, err
}

var initCalled atomic.Bool

// Init makes the program's functions callable on nodes. Call it first in main, or first in
// TestMain. On a node the same program is started to serve its functions: there Init serves them
// and does not return. The same holds in the guardian that [Open] starts for some clouds: see
// [WithoutGuardian]. Anywhere else it returns at once. What main sets after it, and flags, a function
// does not see on a node: see [Func]. A program that registers functions and
// does not call Init is refused by [Open] and [Attach], with [ErrNoInit]; one without functions
// needs no Init.
func Init() {
	initCalled.Store(true)
	if mode := os.Getenv(worker.Env); mode != "" {
		worker.Main(mode)
	}
	if os.Getenv(guardian.Env) != "" {
		guardian.Main(leaveHost)
	}
}

// Errors from a node match the package's own kinds of failure too.
func init() {
	for name, err := range map[string]error{
		"ErrInvalid": ErrInvalid, "ErrNoOffers": ErrNoOffers, "ErrNoCapacity": ErrNoCapacity, "ErrQuota": ErrQuota, "ErrBalance": ErrBalance, "ErrAuth": ErrAuth,
		"ErrRateLimited": ErrRateLimited, "ErrNotFound": ErrNotFound, "ErrUnsupported": ErrUnsupported, "ErrUnavailable": ErrUnavailable,
		"ErrPreempted": ErrPreempted, "ErrNodeLost": ErrNodeLost, "ErrHostKey": ErrHostKey, "ErrBootstrap": ErrBootstrap, "ErrClosed": ErrClosed,
		"ErrExpired": ErrExpired, "ErrNoInit": ErrNoInit, "ErrUnknownFunction": ErrUnknownFunction, "ErrTimeout": ErrTimeout,
		"ErrOutOfMemory": ErrOutOfMemory,
	} {
		worker.RegisterError("gputrain."+name, err)
	}
}

// RegisterError makes errors.Is(err, target) hold for errors that a function returned on a node, as
// if the function had been called here. Call it at package level, next to the error that it names.
// The name is used once in a program.
//
//	var errDiverged = gputrain.RegisterError("diverged", errors.New("loss is NaN"))
func RegisterError(name string, target error) error {
	worker.RegisterError(name, target)
	return target
}

const hintInit = "make gputrain.Init() the first line of main, or of TestMain: on a node it serves the functions"

// A callee is the part of a function that does not depend on its types.
type callee struct {
	name    string
	options callOptions
	refused error // why no call can be made
}

// callOptions are the fields of a Task that a call of a function can have.
type callOptions struct {
	name         string
	timeout      time.Duration
	retries      int
	target       Target
	accelerators int
	critical     bool
}

// register registers a function under its name. After Init was called, it refuses the function: the
// nodes would not have it.
func register(name, position string, h worker.Handler, types ...reflect.Type) callee {
	if initCalled.Load() {
		return callee{name: name, refused: &Error{Op: "call " + name, Kind: ErrInvalid,
			Err: fmt.Errorf("the function %q at %s was registered after gputrain.Init, and no node has it; register it at package level, before Init", name, position)}}
	}
	worker.RegisterAt(name, position, h)
	for _, t := range types {
		if err := codec.Check(t); err != nil {
			unsendable.add(fmt.Errorf("the function %q at %s: %w", name, position, err))
		}
	}
	return callee{name: name}
}

// with returns calls with other options.
func (c callee) with(t Task) callee {
	c.options = callOptions{t.Name, t.Timeout, t.Retries, t.Target, t.Accelerators, t.Critical}
	rest := t
	rest.Name, rest.Timeout, rest.Retries, rest.Target, rest.Accelerators, rest.Critical = "", 0, 0, Target{}, 0, false
	if c.refused == nil && !reflect.ValueOf(rest).IsZero() {
		c.refused = &Error{Op: "call " + c.name, Kind: ErrInvalid, Err: errors.New("With takes Name, Timeout, Retries, Target, Accelerators and Critical of a Task, and no other field")}
	}
	return c
}

// task returns a task that calls the function.
func (c callee) task(marshal func() (codec.Body, error), s *worker.Stream) Task {
	return Task{
		Name: c.options.name, Timeout: c.options.timeout, Retries: c.options.retries, Target: c.options.target,
		Accelerators: c.options.accelerators, Critical: c.options.critical,
		call: &call{function: c.name, marshal: marshal, stream: s, refused: c.refused},
	}
}

// unsendable collects the functions whose types cannot be sent.
var unsendable mistakes

type mistakes struct {
	mu   sync.Mutex
	errs []error
}

func (m *mistakes) add(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errs = append(m.errs, err)
}

func (m *mistakes) err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.errs...)
}

// programReady reports what is wrong with the program's functions as a whole. A program without
// functions needs no Init.
func programReady(op string) error {
	if err := errors.Join(worker.RegistrationError(), unsendable.err()); err != nil {
		return &Error{Op: op, Kind: ErrInvalid, Err: err}
	}
	if names := worker.Names(); len(names) > 0 && !initCalled.Load() {
		return &Error{Op: op, Kind: ErrInvalid, Err: fmt.Errorf("%w, and the program registers the function %q", ErrNoInit, names[0]), Hint: hintInit}
	}
	return nil
}

// functionReady reports why a function cannot be called at all. It needs nothing from a node.
func functionReady(name string) error {
	if err := programReady("call " + name); err != nil {
		return err
	}
	if !worker.Registered(name) {
		return &Error{Op: "call " + name, Kind: ErrUnknownFunction, Hint: calls.PackageLevelHint}
	}
	return nil
}
