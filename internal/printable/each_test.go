package printable

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNamesAndMessagesAreBounded(t *testing.T) {
	for _, s := range []string{"", "a", "a\nb", strings.Repeat("a", LongestName), strings.Repeat("世", LongestName), strings.Repeat("\xff", LongestMessage), "\x1b[31m" + strings.Repeat("a\r", LongestMessage), strings.Repeat("…", LongestMessage)} {
		name, message := Name(s), Message(s)
		if len(name) > LongestName || len(message) > LongestMessage || !utf8.ValidString(name+message) || Name(name) != name || Message(message) != message || strings.Contains(name, "\n") {
			t.Errorf("%.20q of %d bytes becomes %d and %d", s, len(s), len(name), len(message))
		}
	}
	if s := strings.Repeat("a", LongestName); Name(s) != s || Name(s+"a") == s {
		t.Error("the bound is another")
	}
}

type ring struct {
	Name string
	Next *ring
	All  []ring
	By   map[string][]string
	N    int
	F    func()
	I    any
	own  string
}

func TestEach(t *testing.T) {
	v := ring{"a", &ring{Name: "b"}, []ring{{Name: "c"}, {Name: "d"}}, map[string][]string{"e": {"f", "g"}}, 3, nil, "i", "own"}
	before := ring{"a", &ring{Name: "b"}, []ring{{Name: "c"}, {Name: "d"}}, map[string][]string{"e": {"f", "g"}}, 3, nil, "i", "own"}
	got := Each(v, strings.ToUpper)
	want := ring{"A", &ring{Name: "B"}, []ring{{Name: "C"}, {Name: "D"}}, map[string][]string{"E": {"F", "G"}}, 3, nil, "i", "own"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if !reflect.DeepEqual(v, before) {
		t.Errorf("what was given is now %+v", v)
	}
	if same := Each(&v, func(s string) string { return s }); same != &v {
		t.Error("nothing differs, and it was copied")
	}
	if p := Each[*ring](nil, strings.ToUpper); p != nil {
		t.Error("nil became something")
	}
	if n := Each(7, strings.ToUpper); n != 7 {
		t.Error(n)
	}
}

func BenchmarkEach(b *testing.B) {
	v := ring{Name: "a name", Next: &ring{Name: "another"}, By: map[string][]string{"e": {"f", "g"}}}
	for b.Loop() {
		Each(v, Name)
	}
}
