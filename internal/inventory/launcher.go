package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// A launcher records launches, and finds out what became of those that were not answered.
type launcher struct {
	driver   driver.Driver
	machines *machines
	lister   *lister
	book     *book
	report   Reporter
}

// intend records which machines a launch is to make. Without that there is no launch.
func (l *launcher) intend(req driver.Launch) error {
	var rows []ledger.Row
	var names []string
	for _, n := range req.Nodes {
		row := rowOf(driver.Instance{Name: n.Name, Rank: n.Rank, Offer: req.Offer})
		row.Token = req.Token
		rows, names = append(rows, row), append(names, n.Name)
	}
	if err := l.book.must("note a launch; nothing was launched", l.book.ledger.Intend(rows...)); err != nil {
		return err
	}
	l.machines.intend(names)
	return nil
}

// adopt records what a launch returned, also if it failed.
func (l *launcher) adopt(got []driver.Instance) {
	if len(got) == 0 {
		return
	}
	var rows []ledger.Row
	for _, inst := range l.machines.adopt(got) {
		rows = append(rows, rowOf(inst))
	}
	l.book.note(l.book.ledger.Created(rows...)) // if that fails, the machine is found by its intent
	l.report.Billed()
}

// neverMade records that machines, which a launch was to make, do not exist.
func (l *launcher) neverMade(names []string) {
	if len(names) == 0 {
		return
	}
	l.machines.forget(names)
	l.book.note(l.book.ledger.Gone("never made", names...))
}

// settle finds out what has become of machines that a launch was to make and did not return. They are in the provider's
// list, at the latest after the deadline, or count as never made: should they come after all, an audit ends them. What
// is open when ctx ends stays so in the ledger.
func (l *launcher) settle(ctx context.Context, names []string, deadline time.Time, why error) ([]driver.Instance, error) {
	if _, unprepared := errors.AsType[*market.PrepareError](why); unprepared || retry.IsRefused(why) {
		l.neverMade(names)
		return nil, nil
	}
	waits := false
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		at := time.Now()
		found, err := l.listed(ctx, names)
		if err == nil && (len(found) == len(names) || !at.Before(deadline)) {
			l.adopt(found)
			for _, inst := range found {
				names = slices.DeleteFunc(names, func(s string) bool { return s == inst.Name })
			}
			l.neverMade(names)
			return found, nil
		}
		if !waits && deadline.After(at) {
			waits = true
			l.report.Settling(mayBeMade(names, why), deadline)
		}
		if !retry.Sleep(ctx, wait) {
			l.adopt(found)
			return found, err
		}
	}
}

// mayBeMade returns the reason to look for machines of these names.
func mayBeMade(names []string, why error) error {
	if why == nil {
		why = errors.New("the provider has not reported whether it was")
	}
	return fmt.Errorf("%s may have been made: %w", strings.Join(names, ", "), why)
}

// listed returns those of the named machines that the provider lists. If two have one name,
// the first counts: an audit ends the other.
func (l *launcher) listed(ctx context.Context, names []string) ([]driver.Instance, error) {
	machines, err := l.lister.machines(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	seen := map[string]bool{}
	for _, r := range sorted(machines) {
		if slices.Contains(names, r.Name) && !seen[r.Name] {
			seen[r.Name] = true
			ids = append(ids, r.ID)
		}
	}
	if ids == nil {
		return nil, nil
	}
	found, err := l.driver.Describe(ctx, ids...)
	return slices.DeleteFunc(found, func(i driver.Instance) bool {
		return i.State == driver.InstanceTerminated || !slices.Contains(names, i.Name)
	}), err
}
