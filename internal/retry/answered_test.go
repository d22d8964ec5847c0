package retry

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

// A callError reports whether the call was answered.
type callError bool

func (e callError) Error() string  { return "500" }
func (e callError) Answered() bool { return bool(e) }

func TestWhatIsAnswered(t *testing.T) {
	refused := &driver.Error{Kind: driver.ErrQuota, Err: errors.New("no more")}
	failed := &driver.Error{Kind: driver.ErrUnavailable, Err: callError(true)}
	lost := &driver.Error{Kind: driver.ErrUnavailable, Err: callError(false)}
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"nothing wrong", nil, true},
		{"refused", refused, true},
		{"failed", failed, true},
		{"failed, with what it is about", fmt.Errorf("p1-0: %w", &driver.Error{Kind: driver.ErrUnavailable, Err: fmt.Errorf("POST: %w", callError(true))}), true},
		{"lost", lost, false},
		{"not known", &driver.Error{Kind: driver.ErrUnavailable, Err: errors.New("EOF")}, false},
		{"a kind alone", &driver.Error{Kind: driver.ErrUnavailable}, false},
		{"given up", context.Canceled, false},
		{"failed and refused", errors.Join(failed, refused), true},
		{"failed and lost", errors.Join(failed, lost), false},
		{"failed and not known", errors.Join(failed, errors.New("EOF")), false},
		{"failed, then given up", fmt.Errorf("%w (%w)", callError(true), context.Canceled), false},
	} {
		if got := IsAnswered(tt.err); got != tt.want {
			t.Errorf("%s: %v; want %v", tt.name, got, tt.want)
		}
	}
}
