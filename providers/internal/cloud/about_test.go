package cloud

import (
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
)

// What a failure is about, and what to do about it, is told once each.
func TestAHintIsToldOnce(t *testing.T) {
	t.Parallel()
	cause := errors.New("the answer was lost")
	err := Fail("acme", "launch", about("p1-0", &gputrain.Error{Kind: gputrain.ErrUnavailable, Err: cause, Hint: "look at the list"}), nil)
	e, ok := errors.AsType[*gputrain.Error](err)
	if !ok || e.Hint != "look at the list" || !errors.Is(err, gputrain.ErrUnavailable) || !errors.Is(err, cause) {
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
