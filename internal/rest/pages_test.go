package rest

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

// A list whose pages always name another one ends with an error before memory runs out.
func TestAListWithoutEnd(t *testing.T) {
	asked := 0
	var last error
	for _, err := range Pages(func(string) ([]int, string, error) {
		asked++
		return nil, strconv.Itoa(asked), nil
	}) {
		last = err
	}
	if !errors.Is(last, ErrAnswer) || asked != maxPages+1 {
		t.Errorf("after %d pages: %v", asked, last)
	}
}

// Whatever order pages have, each is requested once, and the list is complete or an error.
func FuzzPages(f *testing.F) {
	f.Add("a\nb\nc\n", 3)
	f.Add("a\nb\na\n", 2)
	f.Add("\n", 0)
	f.Add(strings.Repeat("x\n", 9), -1)
	f.Fuzz(func(t *testing.T, next string, failing int) {
		cursors := strings.Split(next, "\n")
		asked := map[string]int{}
		failure := errors.New("broken")
		calls, items, failed := 0, 0, error(nil)
		for _, err := range Pages(func(cursor string) ([]string, string, error) {
			if asked[cursor]++; asked[cursor] > 1 && cursor != "" {
				t.Fatalf("%q was asked for twice", cursor)
			}
			if calls++; calls-1 == failing {
				return nil, "", failure
			}
			if calls > len(cursors) {
				return []string{cursor}, "", nil
			}
			return []string{cursor}, cursors[calls-1], nil
		}) {
			if failed != nil {
				t.Fatal("an item was yielded after the error")
			}
			if failed = err; err == nil {
				items++
			}
		}
		if failed != nil && !errors.Is(failed, failure) && !errors.Is(failed, ErrAnswer) {
			t.Fatal(failed)
		}
		if failed == nil && items != calls {
			t.Fatalf("%d items of %d pages", items, calls)
		}
	})
}
