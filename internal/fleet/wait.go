package fleet

import (
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/cutoff"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// A fleet that waits for capacity asks again after firstWait, and then after twice as long each time, up to longestWait.
// All that wait at a time ask together, so a cloud is not asked more often if more members wait.
const (
	firstWait   = 5 * time.Second
	longestWait = 2 * time.Minute
	// What it waits for is reported once in waitReport.
	waitReport = 10 * time.Minute
)

// A wait is for room, quota or a price.
type wait struct {
	renter   *renter
	since    time.Time
	tries    int
	reported time.Time
}

func (r *renter) newWait() *wait { return &wait{renter: r, since: time.Now()} }

// goesOn pauses after a launch, or a question for offers, has failed with err, and reports whether it is to be tried
// again: there was no room, and the fleet may wait for some still.
func (w *wait) goesOn(err error) bool {
	c := w.renter.fleet.config
	until := w.since.Add(c.WaitForCapacity)
	left := time.Until(until)
	if !isFull(err) || left <= 0 || c.Context.Err() != nil {
		return false
	}
	if time.Since(w.reported) >= waitReport {
		w.reported = time.Now()
		c.Reporter.Waiting(err, w.since, until)
	}
	pause := min(firstWait<<min(w.tries, 10), longestWait)
	w.tries++
	return retry.Sleep(c.Context, min(w.renter.pace.after(pause), left))
}

// A waitedError ends a wait that has lasted as long as the fleet may wait.
type waitedError struct{ error }

func (e waitedError) Unwrap() error { return e.error }

// over returns the error of a wait that ends with err.
func (w *wait) over(err error) error {
	if w.tries == 0 {
		return err
	}
	return waitedError{err}
}

// forOffers waits until there are offers for members that have got none since err. The members that are given up
// meanwhile are not waited for.
func (w *wait) forOffers(members []*Member, err error) ([]driver.Offer, error) {
	for err != nil {
		if !w.goesOn(err) {
			if ctx := w.renter.fleet.config.Context; ctx.Err() != nil {
				err = cutoff.By(ctx, err)
			}
			return nil, w.over(err)
		}
		w.retireUnneeded(members)
		if !anyWanted(w.renter.fleet.config.Lock, members) {
			return nil, nil
		}
		var offers []driver.Offer
		if offers, err = w.renter.ask(); err == nil {
			return offers, nil
		}
	}
	return nil, nil
}

// retireUnneeded gives up those of the waiting members that no task of an elastic fleet waits for any more: their machines
// would be paid for, and do nothing.
func (w *wait) retireUnneeded(waiting []*Member) {
	f := w.renter.fleet
	if !f.config.Elastic {
		return
	}
	f.config.Lock.Lock()
	surplus := f.roster.count(func(m *Member) bool { return !m.leaves && !m.state.Over() }) - max(f.scaler.demand(), f.scaler.least)
	var unneeded []*Member
	for _, m := range slices.Backward(waiting) {
		if len(unneeded) < surplus && !m.state.Over() {
			unneeded = append(unneeded, m)
		}
	}
	f.config.Lock.Unlock()
	for _, m := range unneeded {
		m.retire()
	}
}

// anyWanted reports whether any of the members is not given up.
func anyWanted(lock sync.Locker, members []*Member) bool {
	lock.Lock()
	defer lock.Unlock()
	for _, m := range members {
		if !m.state.Over() {
			return true
		}
	}
	return false
}

// Offers asks for candidates that have room for so many nodes, and waits for them as long as the fleet may.
func (f *Fleet) Offers(nodes int) ([]driver.Offer, error) {
	wait := f.renter.newWait()
	for {
		var offers []driver.Offer
		err := retry.Call(f.config.Context, func() (err error) {
			offers, err = f.machines.candidates()
			return err
		})
		if err == nil {
			err = f.config.Market.HasRoom(offers, nodes)
		}
		if err == nil || nodes == 0 && isFull(err) { // a task waits for its node
			return offers, nil
		}
		if !wait.goesOn(err) {
			return nil, err
		}
	}
}

// A waitingPace has all that wait ask at the same moments. Its zero value is ready to use.
type waitingPace struct {
	mu   sync.Mutex
	next time.Time // when the next of them asks; guarded by mu
}

// after returns how long to wait before one asks again that would do so after a pause: until the next moment at which
// another one asks, if that comes first.
func (p *waitingPace) after(pause time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if at := now.Add(pause); !p.next.After(now) {
		p.next = at
	}
	return p.next.Sub(now)
}
