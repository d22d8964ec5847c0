package slurm

import (
	"context"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// An answer of squeue serves for pollNew if a job was submitted within newFor, for pollPending while one waits or
	// comes up, and else for pollRunning.
	pollNew, pollPending, pollRunning = time.Second, 5 * time.Second, 15 * time.Second
	newFor                            = 20 * time.Second
)

// A poll asks for the queue, once for all callers of a moment. Its answers serve for a while.
type poll struct {
	wg sync.WaitGroup

	mu     sync.Mutex
	last   queue
	asked  time.Time // when last was asked for
	stale  time.Time // answers that were asked for before do not count
	flight *flight   // nil if there is none
}

// A flight is a query under way.
type flight struct {
	asked   time.Time
	waiting int                // callers; the query ends with the last one
	cancel  context.CancelFunc // ends the query
	done    chan struct{}      // closed when queue and err are set
	queue   queue
	err     error
}

// forget makes later callers ask anew: the driver has changed the queue.
func (p *poll) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stale = time.Now()
}

// wait waits for a query under way.
func (p *poll) wait() { p.wg.Wait() }

// get returns an answer that is not older than age, and was asked for after the last change.
func (p *poll) get(ctx context.Context, age time.Duration, ask func(context.Context) (queue, error)) (queue, error) {
	since := time.Now().Add(-age)
	for {
		p.mu.Lock()
		if p.asked.After(p.stale) && !p.asked.Before(since) {
			defer p.mu.Unlock()
			return p.last, nil
		}
		f := p.flight
		if f == nil {
			f = p.start(ctx, ask)
		}
		f.waiting++
		p.mu.Unlock()
		err := p.await(ctx, f)
		if err != nil {
			return queue{}, err
		}
		p.mu.Lock()
		fits := f.asked.After(p.stale) && !f.asked.Before(since)
		p.mu.Unlock()
		if f.err != nil || fits {
			return f.queue, f.err
		}
	}
}

// start begins a query. It goes on if ctx ends, while another caller waits for it. p.mu is held.
func (p *poll) start(ctx context.Context, ask func(context.Context) (queue, error)) *flight {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{asked: time.Now(), cancel: cancel, done: make(chan struct{})}
	p.flight = f
	p.wg.Go(func() {
		defer cancel()
		defer close(f.done)
		f.queue, f.err = ask(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.flight == f {
			p.flight = nil
		}
		if f.err == nil {
			p.last, p.asked = f.queue, f.asked
		}
	})
	return f
}

// await waits for a query.
func (p *poll) await(ctx context.Context, f *flight) error {
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		if p.flight == f {
			p.flight = nil // a later caller begins another one
		}
	}
	return context.Cause(ctx)
}

// queueOf returns the queue for a call about these jobs.
func (d *slurmDriver) queueOf(ctx context.Context, ids ...string) (queue, error) {
	return d.polls.get(ctx, d.age(ids), d.askQueue)
}

// age returns how old an answer about jobs may be.
func (d *slurmDriver) age(ids []string) time.Duration {
	if d.cfg.PollInterval > 0 {
		return d.cfg.PollInterval
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	age := pollRunning
	for _, id := range ids {
		m := d.known[id]
		switch {
		case m == nil:
			age = min(age, pollPending)
		case m.last == driver.InstanceRunning:
		case time.Since(m.launched) < newFor:
			return pollNew
		default:
			age = min(age, pollPending)
		}
	}
	return age
}
