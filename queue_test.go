package gputrain

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The queue is compared with a plain list.
func TestQueueIsFirstComeFirstServed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var q queue
	var want []*unit
	for range 200_000 {
		switch n := rng.IntN(100); {
		case n < 50:
			u := &unit{queued: true}
			q.push(u, false)
			want = append(want, u)
		case n < 53:
			u := &unit{queued: true}
			q.push(u, true)
			want = slices.Insert(want, 0, u)
		case n < 58 && len(want) > 0:
			i := rng.IntN(len(want))
			want[i].queued = false
			q.left++
			want = slices.Delete(want, i, i+1)
		case n < 99:
			var first *unit
			if len(want) > 0 {
				first, want = want[0], want[1:]
			}
			if u := q.pop(); u != first {
				t.Fatal("pop returned another unit than the first")
			}
		case len(want) > 100:
			if !slices.Equal(q.take(), want) {
				t.Fatal("take returned others")
			}
			want = nil
		}
		if q.len() != len(want) {
			t.Fatalf("%d wait, not %d", q.len(), len(want))
		}
	}
	if len(q.units) > 4*max(q.len(), 1024) {
		t.Errorf("%d units wait in a queue of %d", q.len(), len(q.units))
	}
}
