package least

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type item struct{ key int }

// The heap agrees with a plain list, even after keys have changed.
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
			h.Remove(&item{}) // never in the heap
		}
		if h.Len() != len(want) || len(h.at) != len(want) {
			t.Fatalf("the heap has %d items and %d places, want %d", h.Len(), len(h.at), len(want))
		}
		top, ok := h.Top()
		if ok != (len(want) > 0) {
			t.Fatalf("there are %d items, but Top returns %t", len(want), ok)
		}
		for _, x := range want {
			if x.key < top.key {
				t.Fatalf("%d is at the top, but %d is less", top.key, x.key)
			}
		}
	}
}
