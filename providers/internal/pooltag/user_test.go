package pooltag

import (
	"errors"
	"slices"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

func TestUserWords(t *testing.T) {
	got, err := UserWords(map[string]string{"team": "vision=2", "cost-center": "", "ä": "/:."})
	if want := []string{"cost-center=", "team=vision=2", "ä=/:."}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if got, err := UserWords(nil); got != nil || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for name, value := range map[string]string{"": "x", "a=b": "c", "a b": "c", "a": "b,c", "b": "c\u00a0d", "c": "d\x00"} {
		if got, err := UserWords(map[string]string{name: value}); got != nil || !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%q=%q: %q, %v", name, value, got, err)
		}
	}
	if tag := FromWords(append(Tag{Pool: "p1"}.Words(), got...)); tag.Pool != "p1" {
		t.Errorf("%+v", tag)
	}
}
