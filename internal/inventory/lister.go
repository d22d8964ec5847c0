package inventory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// At most mostStrangers are reported for a pool: lists come from outside.
const mostStrangers = 100

// A lister asks what the provider holds for a pool. It passes on no machine that is not the pool's by its [claim].
type lister struct {
	driver driver.Driver
	pool   string
	made   *machines
	book   *book
	report Reporter
	seen   map[string]driver.Resource // by id, what lists have had, for a Reaper; else nil
	// judge decides about the machines of a pool that only its provider knows: those that are not over are not passed on. Nil
	// passes on all.
	judge func(driver.Resource) verdict

	mu     sync.Mutex
	spares bool            // the last list had machines that judge spares; guarded by mu
	told   map[string]bool // the IDs of strangers that were reported; guarded by mu
}

// all returns everything.
func (l *lister) all(ctx context.Context) ([]driver.Resource, error) {
	listed, err := l.driver.List(ctx, l.pool)
	listed = l.own(listed)
	if l.seen != nil {
		for _, r := range listed {
			l.seen[r.ID] = r
		}
	}
	return listed, err
}

// own removes from a list the machines that are not the pool's, which it reports once, and those that judge spares.
func (l *lister) own(listed []driver.Resource) []driver.Resource {
	at := time.Now()
	known, asked := l.made.recorded()
	c := claimOf(l.pool, l.book.ledger, asked)
	var strangers []error
	l.mu.Lock()
	l.spares = false
	listed = slices.DeleteFunc(listed, func(r driver.Resource) bool {
		if r.Kind != machineKind || known[r.ID] {
			return false // the ledger says that the pool has made it
		}
		if why := c.objection(r, at); why != "" {
			if l.told == nil {
				l.told = map[string]bool{}
			}
			if !l.told[r.ID] && len(l.told) < mostStrangers {
				l.told[r.ID] = true
				strangers = append(strangers, strange(r, l.pool, why))
			}
			return true
		}
		if l.judge == nil || l.judge(r) == over {
			return false
		}
		l.spares = true
		return true
	})
	l.mu.Unlock()
	for _, err := range strangers {
		l.report.Trouble("stranger", err)
	}
	return listed
}

// spared reports whether the last list had machines of the pool that are left alone.
func (l *lister) spared() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spares
}

// machines returns the machines, also those of a launch whose answer never came.
func (l *lister) machines(ctx context.Context) (map[string]driver.Resource, error) {
	listed, err := l.all(ctx)
	if err != nil {
		return nil, err
	}
	machines := map[string]driver.Resource{}
	for _, r := range listed {
		if r.Kind == machineKind {
			machines[r.ID] = r
		}
	}
	return machines, nil
}
