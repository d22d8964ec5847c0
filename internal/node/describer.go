package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// A Describer makes two calls in a second at most: describeGap separates them. Each waits
	// for describeGather, so that nodes that begin together are asked for together.
	describeGap, describeGather = 500 * time.Millisecond, 20 * time.Millisecond
	// describeTimeout bounds each call.
	describeTimeout = 30 * time.Second
)

// A Describer asks a driver what became of machines, for all nodes of a pool: those that ask
// before the next call is made share it.
type Describer struct {
	ctx    context.Context // the pool's
	driver driver.Driver
	start  func(func())
	seen   func([]driver.Instance)

	mu      sync.Mutex
	waiting map[string][]chan<- description // by ID
	busy    bool
	last    time.Time // when the last call was made
}

// A description is the answer to a caller of describe.
type description struct {
	inst driver.Instance //secretvet:ignore no message formats a description
	err  error
}

// NewDescriber returns a Describer that makes calls until ctx ends. It uses start to run a
// function that the end of the pool waits for. It calls seen with what the driver reports.
func NewDescriber(ctx context.Context, d driver.Driver, start func(func()), seen func([]driver.Instance)) *Describer {
	return &Describer{ctx: ctx, driver: d, start: start, seen: seen}
}

// describe returns what the driver reports of one machine.
func (d *Describer) describe(ctx context.Context, id string) (driver.Instance, error) {
	answer := make(chan description, 1)
	d.mu.Lock()
	if d.waiting == nil {
		d.waiting = map[string][]chan<- description{}
	}
	d.waiting[id] = append(d.waiting[id], answer)
	if !d.busy {
		d.busy = true
		d.start(d.run)
	}
	d.mu.Unlock()
	select {
	case a := <-answer:
		return a.inst, a.err
	case <-ctx.Done():
		return driver.Instance{}, context.Cause(ctx)
	}
}

// run makes calls until all are answered.
func (d *Describer) run() {
	for {
		d.mu.Lock()
		pause := max(describeGap-time.Since(d.last), describeGather)
		d.mu.Unlock()
		retry.Sleep(d.ctx, pause) // at the end of the pool all are answered at once, by its error
		d.mu.Lock()
		waiting := d.waiting
		d.waiting, d.last = nil, time.Now()
		if d.busy = waiting != nil; !d.busy {
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		d.answer(waiting)
	}
}

// answer asks the driver for machines, and passes on what it reports. An error about some of them answers only for
// those that it does not report.
func (d *Describer) answer(waiting map[string][]chan<- description) {
	ctx, cancel := context.WithTimeoutCause(d.ctx, describeTimeout, fmt.Errorf("no answer within %v", describeTimeout))
	defer cancel()
	found, err := d.driver.Describe(ctx, slices.Sorted(maps.Keys(waiting))...)
	d.seen(found)
	if err == nil {
		err = errors.New("the provider's answer lacks the machine")
	}
	for _, inst := range found {
		send(waiting[inst.ID], description{inst: inst})
		delete(waiting, inst.ID)
	}
	for _, answers := range waiting {
		send(answers, description{err: err})
	}
}

func send(answers []chan<- description, d description) {
	for _, answer := range answers {
		answer <- d // each has room for one
	}
}

// untilNext returns how long to wait for the next multiple of an interval: nodes that look at
// the same interval do so together.
func untilNext(interval time.Duration) time.Duration {
	at := time.Now()
	return at.Truncate(interval).Add(interval).Sub(at)
}
