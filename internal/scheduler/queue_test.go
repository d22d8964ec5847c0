package scheduler

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A plainQueue behaves like a queue, but slowly: it has the calls in the order of their turns, each with its tasks in
// order.
type plainQueue struct {
	calls [][]*Task
}

func (q *plainQueue) len() (n int) {
	for _, c := range q.calls {
		n += len(c)
	}
	return n
}

func (q *plainQueue) remove(u *Task) {
	for i := range q.calls {
		q.calls[i] = slices.DeleteFunc(q.calls[i], func(other *Task) bool { return other == u })
	}
	q.calls = slices.DeleteFunc(q.calls, func(c []*Task) bool { return len(c) == 0 })
}

func (q *plainQueue) pop() *Task {
	if len(q.calls) == 0 {
		return nil
	}
	first := q.calls[0]
	if q.calls = q.calls[1:]; len(first) > 1 {
		q.calls = append(q.calls, first[1:])
	}
	return first[0]
}

// insert puts a task that was started before into its call, in order. Without its call there, it
// becomes a call of its own, behind those that had their turn before it.
func (q *plainQueue) insert(u *Task, turns map[*Batch]uint64) {
	byIndex := func(a, b *Task) int { return a.index - b.index }
	for i, c := range q.calls {
		if c[0].batch == u.batch {
			at, _ := slices.BinarySearchFunc(c, u, byIndex)
			q.calls[i] = slices.Insert(slices.Clone(c), at, u)
			return
		}
	}
	at := 0
	for at < len(q.calls) && turns[q.calls[at][0].batch] < u.turn {
		at++
	}
	q.calls = slices.Insert(q.calls, at, []*Task{u})
}

// The queue agrees with a plain list, under random calls, retries and cancellations.
func TestQueueGivesCallsTurns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var q queue
	var turn uint64
	newTurn := func() uint64 { turn++; return turn }
	var want plainQueue
	turns := map[*Batch]uint64{}
	var running []*Task
	for range 100_000 {
		switch n := rng.IntN(100); {
		case n < 15: // a call
			b := &Batch{}
			var c []*Task
			turns[b] = newTurn()
			for i := range 1 + rng.IntN(6) {
				u := &Task{batch: b, index: i}
				q.push(u, turns[b])
				c = append(c, u)
			}
			want.calls = append(want.calls, c)
		case n < 30 && len(running) > 0: // a retry
			i := rng.IntN(len(running))
			u := running[i]
			running = slices.Delete(running, i, i+1)
			if q.batches[u.batch] == nil {
				turns[u.batch] = u.turn
			}
			want.insert(u, turns)
			q.push(u, u.turn)
		case n < 35 && len(want.calls) > 0: // the end of a context
			c := want.calls[rng.IntN(len(want.calls))]
			u := c[rng.IntN(len(c))]
			want.remove(u)
			q.leave(u)
		case n < 99:
			first := want.pop()
			u := q.pop(func() uint64 { turns[first.batch] = newTurn(); return turn })
			if u != first {
				t.Fatal("pop returned another task than the one whose turn it is")
			}
			if u != nil && rng.IntN(3) == 0 {
				running = append(running, u)
			}
		default:
			var all []*Task
			for _, c := range want.calls {
				all = append(all, c...)
			}
			if !slices.Equal(q.take(), all) {
				t.Fatal("take returned others")
			}
			want.calls = nil
		}
		if q.len() != want.len() || len(q.batches) != len(want.calls) {
			t.Fatalf("%d tasks of %d calls wait, not %d of %d", q.len(), len(q.batches), want.len(), len(want.calls))
		}
	}
}
