package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

// A restored error has its text and its kinds, in the order of kinds, and no other kind.
func TestFailureKeepsTheKindsOfItsError(t *testing.T) {
	for _, k := range kinds {
		var f Failure
		f.SetErr(fmt.Errorf("no: %w", k.err))
		err := f.Err()
		if err.Error() != "no: "+k.err.Error() || !slices.Equal(f.Kinds, []string{k.name}) {
			t.Errorf("%s: %v, %v", k.name, err, f.Kinds)
		}
		for _, other := range kinds {
			if errors.Is(err, other.err) != (other.name == k.name) {
				t.Errorf("%v is a %s: %t", err, other.name, errors.Is(err, other.err))
			}
		}
	}
	var f Failure
	f.SetErr(errors.Join(syscall.ENOSPC, context.Canceled, &driver.Error{Kind: driver.ErrQuota}, errors.New("of no kind")))
	if !slices.Equal(f.Kinds, []string{"quota", "cancelled", "disk full"}) {
		t.Errorf("%v", f.Kinds)
	}
	f = Failure{}
	if f.SetErr(nil); f.Err() != nil {
		t.Errorf("no error came back as %v", f.Err())
	}
}
