package hyperstack

import (
	"net/url"
	"strconv"
)

// pageSize is the requested size of a list's page. The API's own is not documented.
const pageSize = 100

func pageQuery(page int, search string) url.Values {
	query := url.Values{"page": {strconv.Itoa(page)}, "pageSize": {strconv.Itoa(pageSize)}}
	if search != "" {
		query.Set("search", search)
	}
	return query
}

func listed[T any](items *[]T, count int, what string, err error) ([]T, int, error) {
	if err == nil && items == nil {
		err = odd("GET /core/%s: the answer has no list", what)
	}
	if err != nil {
		return nil, 0, err
	}
	return *items, count, nil
}

// pages reads a list to its end: until it has as many items as the answer counts and a page is
// not full, or until a page has nothing new, as the last page does if the answer has no count.
func pages[T any](id func(T) int, get func(page int) (items []T, count int, err error)) ([]T, error) {
	var all []T
	seen := map[int]bool{}
	for page := 1; ; page++ {
		items, count, err := get(page)
		if err != nil {
			return nil, err
		}
		before := len(all)
		for _, item := range items {
			switch n := id(item); {
			case n == 0:
				return nil, odd("the list has an item without an ID")
			case !seen[n]:
				seen[n] = true
				all = append(all, item)
			}
		}
		if len(all) > before && (count == 0 || len(all) < count || len(items) >= pageSize) {
			continue
		}
		if len(all) < count {
			return nil, odd("the list has %d items but counts %d", len(all), count)
		}
		return all, nil
	}
}
