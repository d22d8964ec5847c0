package accelerators

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// unknown is the error for a name that the catalogue lacks.
func unknown(name string) error {
	const exact = "a provider's own name goes into accelerators.Exact"
	if near := nearest(name); len(near) > 0 {
		return fmt.Errorf("no accelerator %s is known; did you mean %s? (%s)", strconv.Quote(name), strings.Join(near, ", "), exact)
	}
	return fmt.Errorf("no accelerator %s is known; %s", strconv.Quote(name), exact)
}

// nearest returns up to three names with the smallest edit distance. Of equal
// ones, those with the length of name go first: a wrong digit is a likelier
// slip than a missing one.
func nearest(name string) []string {
	const atMost = 3
	type near struct {
		name            string
		changes, length int
	}
	key := normal(name)
	limit := max(1, len(key)/3)
	var all []near
	for spelling, i := range index {
		off := max(len(key)-len(spelling), len(spelling)-len(key))
		if off > limit {
			continue
		}
		if d := distance(key, spelling); d <= limit {
			all = append(all, near{catalogue[i].Name, d, off})
		}
	}
	slices.SortFunc(all, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.changes, b.changes), cmp.Compare(a.length, b.length), cmp.Compare(a.name, b.name))
	})
	var names []string
	for _, n := range all {
		if len(names) < atMost && !slices.Contains(names, n.name) {
			names = append(names, n.name)
		}
	}
	return names
}

// distance returns the edit distance of two texts: the number of letters to
// insert, delete, change, or swap with the next one.
func distance(a, b string) int {
	d := make([][]int, len(a)+1) // d[i][j] is that of a[:i] and b[:j]
	for i := range d {
		d[i] = make([]int, len(b)+1)
		for j := range d[i] {
			switch {
			case i == 0 || j == 0:
				d[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				d[i][j] = d[i-1][j-1]
			default:
				d[i][j] = 1 + min(d[i-1][j], d[i][j-1], d[i-1][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
