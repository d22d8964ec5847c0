package cloud

import (
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

// An error shows its subject, its cause and its hint once each.
func TestHintIsShownOnce(t *testing.T) {
	t.Parallel()
	cause := errors.New("the answer was lost")
	err := Fail("acme", "launch", about("p1-0", &driver.Error{Kind: driver.ErrUnavailable, Err: cause, Hint: "look at the list"}), nil)
	e, ok := errors.AsType[*driver.Error](err)
	if !ok || e.Hint != "look at the list" || !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, cause) {
		t.Errorf("%#v", err)
	}
	for _, once := range []string{"look at the list", "p1-0", "the answer was lost"} {
		if n := strings.Count(err.Error(), once); n != 1 {
			t.Errorf("%v has %q %d times", err, once, n)
		}
	}
	if formed := Fail("acme", "terminate", about("p1-0", err), nil); !errors.Is(formed, cause) || !strings.Contains(formed.Error(), "p1-0: acme: launch") {
		t.Errorf("%v", formed)
	}
}
