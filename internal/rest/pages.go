package rest

import (
	"fmt"
	"iter"
)

// maxPages ends a list that goes on for ever: a cloud's longest has thousands of items.
const maxPages = 10_000

// Pages yields the items of all pages of a list. Page gets one, by what the page
// before named as next: a cursor, a number; "" is the first one going in, and the end
// coming out. A next page that has been there already is an error, and so are more than
// maxPages: a list that cannot be read to its end is never a short one.
func Pages[T any](page func(cursor string) (items []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		seen := map[string]bool{}
		for cursor := ""; ; {
			items, next, err := page(cursor)
			if err != nil {
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			if seen[next] {
				yield(none, fmt.Errorf("%w: after page %q of the list comes page %q again", ErrAnswer, cursor, next))
				return
			}
			if len(seen) == maxPages {
				yield(none, fmt.Errorf("%w: the list has more than %d pages", ErrAnswer, maxPages))
				return
			}
			seen[next], cursor = true, next
		}
	}
}
