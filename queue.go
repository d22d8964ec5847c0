package gputrain

// A queue is units that wait for a slot of the same nodes, first come, first served.
// pool.mu guards it.
type queue struct {
	target Target
	units  []*unit
	head   int // units before it are gone
	left   int // units behind it that left by themselves
}

// push puts a unit at the end, or at the front.
func (q *queue) push(u *unit, front bool) {
	switch {
	case !front:
		if q.head > 1024 && q.head > len(q.units)/2 { // what is gone is not kept
			q.units = append(q.units[:0], q.units[q.head:]...)
			q.head = 0
		}
		q.units = append(q.units, u)
	case q.head > 0:
		q.head--
		q.units[q.head] = u
	default:
		q.units = append([]*unit{u}, q.units...)
	}
}

// len counts the units that wait.
func (q *queue) len() int { return len(q.units) - q.head - q.left }

// pop takes the first unit that waits, or returns nil.
func (q *queue) pop() *unit {
	for q.head < len(q.units) {
		u := q.units[q.head]
		q.units[q.head] = nil
		q.head++
		if q.head == len(q.units) {
			q.units, q.head = q.units[:0], 0
		}
		if u.queued {
			u.queued = false
			return u
		}
		q.left--
	}
	return nil
}

// take empties the queue.
func (q *queue) take() []*unit {
	var all []*unit
	for u := q.pop(); u != nil; u = q.pop() {
		all = append(all, u)
	}
	return all
}
