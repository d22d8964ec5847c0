package calls

import (
	"slices"
	"testing"

	"github.com/gputrain/gputrain/internal/attempt"
)

// The scratch directories of a dead process count as left, and so may be removed, once no call brings files of them.
func TestScratchStaysWhileItsFilesCome(t *testing.T) {
	h := &Host{}
	p := &process{socket: "socket", scratch: "scratch", keeping: 2}
	r := &running{proc: p, keeper: &attempt.Keeper{}}
	h.kept(r)
	h.buried(p)
	if left := h.left.all(); !slices.Equal(left, []string{"socket"}) {
		t.Errorf("%q are left while a call brings files", left)
	}
	h.kept(r)
	h.tidy(p)
	if left := h.left.all(); !slices.Equal(left, []string{"socket", "scratch"}) {
		t.Errorf("%q are left at the end", left)
	}
	other := &process{socket: "s2", scratch: "d2"}
	h.buried(other)
	h.kept(&running{proc: other}) // without files
	if left := h.left.all(); !slices.Equal(left[2:], []string{"s2", "d2"}) {
		t.Errorf("%q are left of a process without files", left)
	}
}
