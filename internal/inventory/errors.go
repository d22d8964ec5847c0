package inventory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/providers/driver"
)

// A LeakError names what the provider has not confirmed to be gone. It may
// still cost money: end it by hand.
type LeakError struct {
	// Resources are the remaining resources that are known.
	Resources []driver.Resource
	// Err is why.
	Err error
}

// Error names each resource by provider, kind, id, region and price.
func (e *LeakError) Error() string {
	var names []string
	for _, r := range e.Resources {
		s := fmt.Sprintf("%s %s %s", r.Provider, r.Kind, r.ID)
		if r.Region != "" {
			s += " in " + r.Region
		}
		if usd, known := r.HourlyUSD.USD(); !known || usd > 0 {
			s += " at " + r.HourlyUSD.String() + " an hour"
		}
		names = append(names, s)
	}
	if names == nil {
		return printable.Text(fmt.Sprintf("not confirmed that everything is gone: %v", e.Err))
	}
	return printable.Text(fmt.Sprintf("not confirmed gone: %s: %v", strings.Join(names, "; "), e.Err))
}

// Unwrap returns why.
func (e *LeakError) Unwrap() error { return e.Err }

var errNotYet = errors.New("the provider still has them")

// leak returns the error for machines that are left.
func leak(left map[string]driver.Resource, why error) error {
	if why == nil {
		why = errNotYet
	}
	return &LeakError{Resources: sorted(left), Err: why}
}

// mayLeave reports whether an error may be about a resource that is left.
func mayLeave(err error, id string) bool {
	leak, ok := errors.AsType[*LeakError](err)
	return !ok || slices.ContainsFunc(leak.Resources, func(r driver.Resource) bool { return r.ID == id })
}

func sorted(m map[string]driver.Resource) []driver.Resource {
	return slices.SortedFunc(maps.Values(m), func(a, b driver.Resource) int { return strings.Compare(a.ID, b.ID) })
}

// LedgerError returns the error for what could not be done with a ledger.
func LedgerError(op string, err error) error {
	e := &driver.Error{Op: op, Kind: driver.ErrLedger, Err: err}
	switch {
	case errors.Is(err, ledger.ErrInUse):
		e.Kind = driver.ErrInUse
	case errors.Is(err, ledger.ErrFenced):
		e.Kind = driver.ErrFenced
	case errors.Is(err, ledger.ErrFull):
		e.Hint = "free space there, or choose another folder with WithStateDir"
	}
	return e
}
