package inventory

import (
	"fmt"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// createTime bounds how long a driver may take, with all its retries, until it answers a call to make something.
const createTime = 10 * time.Minute

// A listLag is the time until which the lists of a provider may be incomplete: they may lack
// what was made just now, or what a call without an answer still makes.
type listLag struct {
	caps driver.Capabilities

	mu    sync.Mutex
	until time.Time // guarded by mu, as is why
	why   error     // of the call without an answer that decides; nil if none does
}

// called extends the time after a call that makes things, by how it was answered.
func (l *listLag) called(err error) {
	at := time.Now()
	if retry.IsRefused(err) || retry.IsAnswered(err) || l.caps.Free { // an engine's commands have ended with the call
		err = nil // only lists lag
	} else {
		at = at.Add(l.caps.LateEffect)
	}
	l.extend(at, err)
}

// recall extends the time by a row of an earlier program, as that program would have. It reports whether lists may lack
// something now.
func (l *listLag) recall(row ledger.Row) bool {
	var at time.Time
	why := fmt.Errorf("%s, of a program that is gone", row.Name)
	switch {
	case !row.Created.IsZero():
		at, why = row.Created, nil
	case !row.Gone.IsZero():
		at = row.Gone.Add(l.caps.LateEffect)
	default: // it may have died in the call, just now
		at = row.Intended.Add(createTime)
		if at.After(time.Now()) {
			at = time.Now()
		}
		at = at.Add(l.caps.LateEffect)
	}
	l.extend(at, why)
	return l.end().After(time.Now())
}

// extend makes lists count as incomplete until they must show what was made at a time.
func (l *listLag) extend(made time.Time, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := made.Add(l.caps.ListLag); until.After(l.until) {
		l.until, l.why = until, why
	}
}

// end returns the time from which on a list has everything that the calls so far have made.
func (l *listLag) end() time.Time {
	until, _ := l.reason()
	return until
}

// reason returns end, and the error of the call without an answer that decides it, if one does.
func (l *listLag) reason() (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until, l.why
}

// announce reports until when the end of a pool waits for complete lists, and why, if it does.
func (l *listLag) announce(report Reporter) {
	until, why := l.reason()
	if !until.After(time.Now()) {
		return
	}
	if why != nil {
		why = fmt.Errorf("a call without an answer may still make something: %w", why)
	}
	report.Settling(why, until)
}

// pause returns how long to wait before something is looked at again: not longer than until
// lists are complete.
func (l *listLag) pause(wait time.Duration) time.Duration {
	if left := time.Until(l.end()); left > 0 {
		return min(wait, left)
	}
	return wait
}
