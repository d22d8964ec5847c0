package least

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type item struct{ key int }

// The heap is compared with a plain list, through changes of keys too.
func TestHeapHasTheLeastOnTop(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	h := New(func(a, b *item) bool { return a.key < b.key })
	var want []*item
	for range 50_000 {
		switch n := rng.IntN(100); {
		case n < 40:
			x := &item{rng.IntN(1000)}
			h.Put(x)
			want = append(want, x)
		case n < 60 && len(want) > 0:
			x := want[rng.IntN(len(want))]
			x.key = rng.IntN(1000)
			h.Put(x)
		case n < 75 && len(want) > 0:
			i := rng.IntN(len(want))
			h.Remove(want[i])
			want = slices.Delete(want, i, i+1)
		case n < 99 && len(want) > 0:
			x, _ := h.Top()
			h.Remove(x)
			want = slices.DeleteFunc(want, func(other *item) bool { return other == x })
		default:
			h.Remove(&item{}) // never there
		}
		if h.Len() != len(want) || len(h.at) != len(want) {
			t.Fatalf("%d items, %d places, not %d", h.Len(), len(h.at), len(want))
		}
		top, ok := h.Top()
		if ok != (len(want) > 0) {
			t.Fatalf("there are %d items, and Top says %t", len(want), ok)
		}
		for _, x := range want {
			if x.key < top.key {
				t.Fatalf("%d is on top of %d", top.key, x.key)
			}
		}
	}
}
