package gputrain

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/worker"
)

const (
	hintPackageLevel = "make functions with gputrain.Func at package level, so that the program knows them on every node too"
	hintInit         = "make gputrain.Init() the first line of main, or of TestMain: on a node it serves the functions"
)

// calls is the part of a function that does not depend on its types: what every
// task that calls it has.
type calls struct {
	name    string
	options callOptions
	refused error // why no call can be made
}

// callOptions are the fields of a Task that a call of a function can have.
type callOptions struct {
	name    string
	timeout time.Duration
	retries int
	target  Target
}

// register makes a function known under its name. Once Init was called it is
// refused: the program has it here, and not on the nodes.
func register(name, position string, h worker.Handler, types ...reflect.Type) calls {
	if initCalled.Load() {
		return calls{name: name, refused: &Error{Op: "call " + name, Kind: ErrInvalid,
			Err: fmt.Errorf("the function %q at %s was registered after gputrain.Init, and no node has it; register it at package level, before Init", name, position)}}
	}
	worker.RegisterAt(name, position, h)
	for _, t := range types {
		if err := codec.Check(t); err != nil {
			unsendable.add(fmt.Errorf("the function %q at %s: %w", name, position, err))
		}
	}
	return calls{name: name}
}

// with returns calls with other options.
func (c calls) with(t Task) calls {
	c.options = callOptions{t.Name, t.Timeout, t.Retries, t.Target}
	rest := t
	rest.Name, rest.Timeout, rest.Retries, rest.Target = "", 0, 0, Target{}
	if c.refused == nil && !reflect.ValueOf(rest).IsZero() {
		c.refused = &Error{Op: "call " + c.name, Kind: ErrInvalid, Err: errors.New("With takes Name, Timeout, Retries and Target of a Task, and no other field")}
	}
	return c
}

// task returns a task that calls the function.
func (c calls) task(marshal func() (codec.Body, error), s *worker.Stream) Task {
	return Task{
		Name: c.options.name, Timeout: c.options.timeout, Retries: c.options.retries, Target: c.options.target,
		call: &call{function: c.name, marshal: marshal, stream: s, refused: c.refused},
	}
}

// unsendable holds what is wrong with the types of functions.
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

// programReady reports what is wrong with the program's functions as a whole. A
// program without functions needs no Init.
func programReady(op string) error {
	if err := errors.Join(worker.RegistrationError(), unsendable.err()); err != nil {
		return &Error{Op: op, Kind: ErrInvalid, Err: err}
	}
	if names := worker.Names(); len(names) > 0 && !initCalled.Load() {
		return &Error{Op: op, Kind: ErrInvalid, Err: fmt.Errorf("%w, and the program registers the function %q", ErrNoInit, names[0]), Hint: hintInit}
	}
	return nil
}

// functionReady reports why a function cannot be called at all. Everything
// here is known before anything is shipped.
func functionReady(name string) error {
	if err := programReady("call " + name); err != nil {
		return err
	}
	if !worker.Registered(name) {
		return &Error{Op: "call " + name, Kind: ErrUnknownFunction, Hint: hintPackageLevel}
	}
	return nil
}
