package gputrain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// describeGap separates two calls of a describer: it makes two in a second at most. Each
	// waits for describeGather, so that nodes that begin together are asked for together.
	describeGap, describeGather = 500 * time.Millisecond, 20 * time.Millisecond
	// describeTimeout bounds each of them.
	describeTimeout = 30 * time.Second
)

// A describer asks the provider what became of machines, for all nodes that want to know:
// those that ask before the next call is made share it.
type describer struct {
	mu    sync.Mutex
	asked map[string][]chan<- description // by ID
	busy  bool
	last  time.Time // when the last call was made
}

// A description is the answer to one who asked.
type description struct {
	inst Instance //secretvet:ignore no message formats a description
	err  error
}

// describe returns what the provider says of one machine.
func (p *pool) describe(ctx context.Context, id string) (Instance, error) {
	d, answer := &p.describing, make(chan description, 1)
	d.mu.Lock()
	if d.asked == nil {
		d.asked = map[string][]chan<- description{}
	}
	d.asked[id] = append(d.asked[id], answer)
	if !d.busy {
		d.busy = true
		p.lives.Go(func() { d.run(p) }) // the caller is one of these
	}
	d.mu.Unlock()
	select {
	case a := <-answer:
		return a.inst, a.err
	case <-ctx.Done():
		return Instance{}, context.Cause(ctx)
	}
}

// run makes calls until all are answered.
func (d *describer) run(p *pool) {
	for {
		d.mu.Lock()
		pause := max(describeGap-now().Sub(d.last), describeGather)
		d.mu.Unlock()
		sleep(p.ctx, pause) // at the end of the pool all are answered at once, by its error
		d.mu.Lock()
		asked := d.asked
		d.asked, d.last = nil, now()
		if d.busy = asked != nil; !d.busy {
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		d.answer(p, asked)
	}
}

// answer asks the provider for machines, and hands over what it says. That it fails over one
// of them is no answer for that one alone.
func (d *describer) answer(p *pool, asked map[string][]chan<- description) {
	ctx, cancel := context.WithTimeoutCause(p.ctx, describeTimeout, fmt.Errorf("no answer within %v", describeTimeout))
	defer cancel()
	found, err := p.driver.Describe(ctx, slices.Sorted(maps.Keys(asked))...)
	if err == nil {
		err = errors.New("the provider's answer lacks the machine")
	}
	for _, inst := range found {
		tell(asked[inst.ID], description{inst: inst})
		delete(asked, inst.ID)
	}
	for _, answers := range asked {
		tell(answers, description{err: err})
	}
}

func tell(answers []chan<- description, d description) {
	for _, answer := range answers {
		answer <- d // each has room for one
	}
}

// untilNext is how long to wait for the next of the looks that are so far apart: all who look
// as often do so together.
func untilNext(every time.Duration) time.Duration {
	at := now()
	return at.Truncate(every).Add(every).Sub(at)
}
