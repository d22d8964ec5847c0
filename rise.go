package gputrain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
)

const (
	// riseEvery and riseEveryReached are how long apart, at the most, the provider is asked
	// for a machine on its way up: before it was reached, and after.
	riseEvery, riseEveryReached = 5 * time.Second, 15 * time.Second
	// stopping is how long a machine that was just launched may be described as stopped, as
	// some are in between, until it counts as one that will not come up.
	stopping = 30 * time.Second
)

// A rise is the time of a machine from its launch until its node is ready, as the provider
// describes it: beside whatever else is tried with the machine.
type rise struct {
	n       *poolNode
	reach   chan Instance // receives the machine once its SSH server has an address
	stopped time.Time     // since when it is

	mu        sync.Mutex
	failure   error // the provider's, since its last answer
	unreached error // why the last attempt to connect failed
}

func newRise(n *poolNode) *rise { return &rise{n: n, reach: make(chan Instance, 1)} }

// watch asks the provider until the node is ready or over. It gives the node up when the
// machine will not come up any more.
func (r *rise) watch(inst Instance) {
	n, reached := r.n, false
	for wait := 100 * time.Millisecond; ; {
		if why := r.fate(inst); why != nil {
			r.giveUp(why)
			return
		}
		every := riseEvery
		switch {
		case reached && r.contacted():
			every = riseEveryReached
		case !reached && inst.State == InstanceRunning && inst.SSH.Addr != "":
			reached = true
			r.reach <- inst
		}
		if wait >= riseEvery {
			wait = untilNext(every)
		}
		if !sleep(n.ctx, wait) || r.over() {
			return
		}
		wait = min(2*wait, riseEvery)
		got, err := n.p.describe(n.ctx, inst.ID)
		if n.ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		r.failure = err
		r.mu.Unlock()
		switch {
		case err == nil:
			if inst = got; !reached {
				r.found(got) // later it is read without the lock
			}
		case !reached && !isTransient(err):
			r.giveUp(err)
			return
		}
	}
}

// found notes how the machine was described.
func (r *rise) found(inst Instance) {
	r.n.p.mu.Lock()
	defer r.n.p.mu.Unlock()
	r.n.inst = inst
}

// notify takes in what becomes of the connection.
func (r *rise) notify(e ssh.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unreached = e.Err
}

// failures returns what went wrong last, of the provider and of the connection.
func (r *rise) failures() (all []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range []error{r.failure, r.unreached} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// fate is why a machine will not come up, or nil.
func (r *rise) fate(inst Instance) error {
	kind, state := ErrNoCapacity, inst.State.String()
	switch inst.State {
	case InstancePreempted:
		kind = ErrPreempted
	case InstanceFailed, InstanceTerminated:
	case InstanceStopped:
		if r.stopped.IsZero() {
			r.stopped = now()
		}
		if now().Sub(r.stopped) < stopping {
			return nil
		}
		state = "stopped before it came up"
	default:
		r.stopped = time.Time{}
		return nil
	}
	why := fmt.Errorf("the machine is %s%s", state, afterColon(inst.StateReason))
	n := r.n
	if r.contacted() {
		return n.lost(&Error{Kind: kind, Err: fmt.Errorf("the provider says that %w", why)})
	}
	return &Error{Provider: n.provider(), Op: "launch " + n.name, Kind: kind, Err: why}
}

// contacted reports whether the node was reached.
func (r *rise) contacted() bool {
	r.n.p.mu.Lock()
	defer r.n.p.mu.Unlock()
	return r.n.state >= NodeBootstrapping
}

// over reports whether the node is ready, or over.
func (r *rise) over() bool {
	r.n.p.mu.Lock()
	defer r.n.p.mu.Unlock()
	return r.n.state >= NodeReady
}

// giveUp ends what is tried with the machine: whoever tries it then fails the node, by why.
func (r *rise) giveUp(why error) {
	r.n.p.mu.Lock()
	defer r.n.p.mu.Unlock()
	if r.n.state < NodeReady {
		r.n.cancel(why)
	}
}

// awaitEndpoint waits until the machine can be reached.
func (n *poolNode) awaitEndpoint(ctx context.Context) (Instance, error) {
	select {
	case inst := <-n.rise.reach:
		return inst, nil
	case <-ctx.Done():
		inst := n.machine()
		return inst, n.explain(ctx, "launch", fmt.Errorf("the machine is %v", inst.State))
	}
}

// machine returns the node's machine as it was last described.
func (n *poolNode) machine() Instance {
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	return n.inst
}

// explain says why a machine could not be reached, and asks the provider what
// became of it.
func (n *poolNode) explain(ctx context.Context, op string, err error) error {
	if n.ctx.Err() != nil {
		return context.Cause(n.ctx)
	}
	inst := n.machine()
	e := &Error{Provider: n.provider(), Op: op + " " + n.whereabouts(), Kind: kindOfSSH(err), Err: err}
	e.Hint = n.advice(e.Kind)
	if at, source := n.server.endpoint(inst.SSH, n.caps()); errors.Is(err, ssh.ErrAuth) && at.Password != "" && !sendsPassword(at, source) {
		e.Err = fmt.Errorf("%w (%w)", err, errWithheld)
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		e.Err = fmt.Errorf("%w: %w", cause, err)
	}
	found, descErr := n.p.describe(n.ctx, inst.ID)
	switch {
	case descErr == nil && found.State != InstanceRunning:
		e.Err = fmt.Errorf("%w (the provider says that the machine is %v%s)", e.Err, found.State, afterColon(found.StateReason))
	case descErr != nil && n.ctx.Err() == nil:
		e.Err = fmt.Errorf("%w (the provider: %v)", e.Err, descErr)
	}
	return e
}
