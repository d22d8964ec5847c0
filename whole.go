package gputrain

import (
	"fmt"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
)

// createTime is how long a driver may take, with all that it tries again, until it
// answers a call to make something.
const createTime = 10 * time.Minute

// made notes a call that makes things, as it was answered: until when a list of the
// provider may lack them.
func (p *pool) made(err error) {
	at := now()
	if isSettled(err) || isAnswered(err) || p.caps.Free { // an engine's commands have ended with the call
		err = nil // only lists lag
	} else {
		at = at.Add(p.caps.LateEffect)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.whole.extend(at.Add(p.caps.ListLag), err)
	p.auditSoon()
}

// wholeness is from when on the provider's lists lack nothing that was made.
type wholeness struct {
	from time.Time
	why  error // of the call without an answer that decides; nil if none does
}

func (w *wholeness) extend(from time.Time, why error) {
	if from.After(w.from) {
		*w = wholeness{from, why}
	}
}

// wholeFrom returns from when on a list of the provider has whatever the pool's calls
// have made so far.
func (p *pool) wholeFrom() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.whole.from
}

// sayWhole emits until when the end of the pool waits for the provider's lists, and why.
func (p *pool) sayWhole() {
	p.mu.Lock()
	w := p.whole
	p.mu.Unlock()
	if !w.from.After(now()) {
		return
	}
	if w.why != nil {
		w.why = fmt.Errorf("a call without an answer may still make something: %w", w.why)
	}
	p.settling(w.why, w.from)
}

// untilWhole is how long to wait before something is looked at again: as long as a
// list may still lack something, not longer than until it no longer does.
func (p *pool) untilWhole(wait time.Duration) time.Duration {
	if left := p.wholeFrom().Sub(now()); left > 0 {
		return min(wait, left)
	}
	return wait
}

// remember has the pool know of a row what made would have noted, had its program lived.
func (p *pool) remember(row ledger.Row) {
	var at time.Time
	why := fmt.Errorf("%s, of a program that is gone", row.Name)
	switch {
	case !row.Created.IsZero():
		at, why = row.Created, nil
	case !row.Gone.IsZero():
		at = row.Gone.Add(p.caps.LateEffect)
	default: // it may have died in the call, just now
		at = row.Intended.Add(createTime)
		if at.After(now()) {
			at = now()
		}
		at = at.Add(p.caps.LateEffect)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.whole.extend(at.Add(p.caps.ListLag), why)
	if p.whole.from.After(now()) {
		p.auditSoon()
	}
}
