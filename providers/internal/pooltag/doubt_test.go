package pooltag

import (
	"strings"
	"testing"
	"time"
)

func TestDoubt(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	tag := Tag{Pool: "p1", Name: "p1-0", Created: at}
	for _, tt := range []struct {
		what, name string
		tag        Tag
		made       time.Time
		want       string // a part
	}{
		{"all agree", "gputrain-p1-0", tag, at.Add(time.Second), ""},
		{"the node's name alone", "p1-0", tag, at, ""},
		{"a name with times", tag.LongName(0), tag, at, ""},
		{"the cloud tells nothing", "", tag, time.Time{}, ""},
		{"the tag has no time", "gputrain-p1-0", Tag{Pool: "p1", Name: "p1-0"}, at.AddDate(-1, 0, 0), ""},
		{"clocks that differ", "", tag, at.Add(-clockSkew), ""},
		{"a slow call", "", tag, at.Add(latest), ""},
		{"it is nobody's", "db", Tag{}, at, ""},
		{"another name", "db", tag, at, `calls it "db", and its tag names node "p1-0"`},
		{"another node", "gputrain-p1-1", tag, at, `calls it "gputrain-p1-1"`},
		{"another pool", "gputrain-p2-0", tag, at, `calls it "gputrain-p2-0"`},
		{"no node", "gputrain-p1-0", Tag{Pool: "p1", Created: at}, at, `its tag names node ""`},
		{"older than its tag", "", tag, at.Add(-clockSkew - time.Second), "made it at 2026-01-02T02:54:59Z, and its tag is of 2026-01-02T03:00:00Z"},
		{"a copied tag", "", tag, at.Add(latest + time.Second), "its tag is of"},
	} {
		if got := tt.tag.Doubt(tt.name, tt.made); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}

// What a launch looks for is its own machine, not another's of the same name.
func TestIs(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	tag := Tag{Pool: "p1", Name: "p1-0", Owner: "a.00000000/1/2", Created: at}
	change := func(f func(*Tag)) Tag {
		found := tag
		f(&found)
		return found
	}
	for _, tt := range []struct {
		what  string
		found Tag
		want  bool
	}{
		{"it itself", tag, true},
		{"of a cloud that keeps little", Tag{Pool: "p1", Name: "p1-0"}, true},
		{"made by a slow call", change(func(t *Tag) { t.Created = at.Add(time.Hour) }), true},
		{"another node", change(func(t *Tag) { t.Name = "p1-1" }), false},
		{"another pool", change(func(t *Tag) { t.Pool = "p2" }), false},
		{"another program", change(func(t *Tag) { t.Owner = "b.00000000/1/2" }), false},
		{"from before", change(func(t *Tag) { t.Created = at.Add(-time.Hour) }), false},
	} {
		if got := tag.Is(tt.found); got != tt.want {
			t.Errorf("%s: %v", tt.what, got)
		}
	}
}
