package rest

import (
	"fmt"
	"iter"
)

// A list of more than maxPages pages is endless: a cloud's longest has thousands of items.
const maxPages = 10_000

// Pages yields the items of all pages of a list. It calls page with "" first, and then with the cursor or number that
// the previous call returned as next; "" ends the list. A repeated next is an error, and so are more than maxPages: a
// list that cannot be read to its end is never taken for a short one.
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
