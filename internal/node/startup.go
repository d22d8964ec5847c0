package node

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// A machine on its way up is described at least every startupInterval, and every
	// contactedInterval after it was reached.
	startupInterval, contactedInterval = 5 * time.Second, 15 * time.Second
	// Some machines are described as stopped for a moment after their launch. One that is so
	// for stoppedPatience counts as failed.
	stoppedPatience = 30 * time.Second
)

// A stage is how far a node has come.
type stage int

const (
	stageLaunched  stage = iota
	stageContacted       // it was reached, and has what the pool asks for
	stageReady
	stageRejected // its machine will not come up
)

// A startup follows a machine from its launch until its node is ready, as the provider describes it, while the node
// connects and bootstraps.
type startup struct {
	node    *Node
	reach   chan driver.Instance // receives the machine once its SSH server has an address
	stopped time.Time            // since when the machine is described as stopped; zero if it is not
	pending string               // the reason that was last given for a pending machine

	mu        sync.Mutex
	stage     stage
	failure   error // the provider's, since its last answer
	unreached error // why the last attempt to connect failed
}

// watch asks the provider until the node is ready or given up. It gives the node up if the
// machine will not come up.
func (s *startup) watch(inst driver.Instance) {
	n, reached := s.node, false
	for wait := 100 * time.Millisecond; ; {
		if why := s.failed(inst); why != nil {
			s.reject(why)
			return
		}
		s.tellPending(inst)
		interval := startupInterval
		switch {
		case reached && s.at() >= stageContacted:
			interval = contactedInterval
		case !reached && inst.State == driver.InstanceRunning && inst.SSH.Addr != "":
			reached = true
			s.reach <- inst
		}
		if wait >= startupInterval {
			wait = untilNext(interval)
		}
		if !retry.Sleep(n.ctx, wait) || s.at() >= stageReady {
			return
		}
		wait = min(2*wait, startupInterval)
		got, err := n.settings.Describer.describe(n.ctx, inst.ID)
		if n.ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		s.failure = err
		s.mu.Unlock()
		switch {
		case err == nil:
			if inst = got; !reached {
				n.SetInstance(got) // later it has the addresses that the machine itself has reported
			}
		case !reached && !retry.IsTransient(err):
			s.reject(err)
			return
		}
	}
}

// awaitEndpoint waits until the machine's SSH server has an address.
func (s *startup) awaitEndpoint(ctx context.Context) (driver.Instance, error) {
	select {
	case inst := <-s.reach:
		return inst, nil
	case <-ctx.Done():
		inst := s.node.Instance()
		return inst, s.node.explain(ctx, "launch", fmt.Errorf("the machine is %v", inst.State))
	}
}

// notify notes a change of the connection.
func (s *startup) notify(e ssh.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreached = e.Err
}

// failures returns what went wrong last, for the provider and for the connection.
func (s *startup) failures() (all []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range []error{s.failure, s.unreached} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// tellPending notifies the owner if the reason has changed why the machine is pending.
func (s *startup) tellPending(inst driver.Instance) {
	if inst.State == driver.InstancePending && inst.StateReason != "" && inst.StateReason != s.pending {
		s.pending = inst.StateReason
		s.node.owner.Pending(inst.StateReason)
	}
}

// failed returns why a machine will not come up, or nil.
func (s *startup) failed(inst driver.Instance) error {
	kind, state := cmp.Or(inst.FailureKind, driver.ErrNoCapacity), inst.State.String()
	switch inst.State {
	case driver.InstancePreempted:
		kind = driver.ErrPreempted
	case driver.InstanceFailed, driver.InstanceTerminated:
	case driver.InstanceStopped:
		if s.stopped.IsZero() {
			s.stopped = time.Now()
		}
		if time.Since(s.stopped) < stoppedPatience {
			return nil
		}
		state = "stopped before it came up"
	default:
		s.stopped = time.Time{}
		return nil
	}
	why := fmt.Errorf("the machine is %s%s", state, afterColon(inst.StateReason))
	n := s.node
	if s.at() >= stageContacted {
		return n.lost(&driver.Error{Kind: kind, Err: fmt.Errorf("the provider reports that %w", why)})
	}
	return &driver.Error{Provider: n.Provider(), Op: "launch " + n.Name(), Kind: kind, Err: why}
}

func (s *startup) at() stage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stage
}

// contact notes that the machine was reached.
func (s *startup) contact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stage = max(s.stage, stageContacted)
}

// reject gives up a node that is not ready: the current operation on its machine fails with why.
func (s *startup) reject(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stage < stageReady {
		s.stage = stageRejected
		s.node.cancel(why)
	}
}

// end notes that the node is ready, or returns why it was rejected at the same time.
func (s *startup) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stage == stageRejected {
		return context.Cause(s.node.ctx)
	}
	s.stage = stageReady
	return nil
}
