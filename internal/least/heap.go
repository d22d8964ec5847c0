// Package least has a priority queue whose items may change their priority.
package least

// A Heap holds items and has the least one at its top. It knows where each item is, so an item
// whose key has changed, or that is removed, is found without a search. Each change takes time
// proportional to the logarithm of the number of items.
type Heap[T comparable] struct {
	less  func(a, b T) bool
	items []T
	at    map[T]int
}

// New returns an empty heap that is ordered by less.
func New[T comparable](less func(a, b T) bool) *Heap[T] {
	return &Heap[T]{less: less, at: map[T]int{}}
}

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// Top returns the least item, and false if there is none.
func (h *Heap[T]) Top() (least T, ok bool) {
	if len(h.items) == 0 {
		return least, false
	}
	return h.items[0], true
}

// Put adds an item. If it is in the heap already, Put moves it to its new place.
func (h *Heap[T]) Put(item T) {
	i, has := h.at[item]
	if !has {
		i = len(h.items)
		h.items = append(h.items, item)
		h.at[item] = i
	}
	h.settle(i)
}

// Remove removes an item, if it is in the heap.
func (h *Heap[T]) Remove(item T) {
	i, has := h.at[item]
	if !has {
		return
	}
	last := len(h.items) - 1
	h.swap(i, last)
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	delete(h.at, item)
	if i < last {
		h.settle(i)
	}
}

// settle moves the item at i up or down until its neighbours are in order.
func (h *Heap[T]) settle(i int) {
	for i > 0 && h.less(h.items[i], h.items[(i-1)/2]) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			return
		}
		if child+1 < len(h.items) && h.less(h.items[child+1], h.items[child]) {
			child++
		}
		if !h.less(h.items[child], h.items[i]) {
			return
		}
		h.swap(i, child)
		i = child
	}
}

func (h *Heap[T]) swap(i, j int) {
	if i == j {
		return
	}
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.at[h.items[i]], h.at[h.items[j]] = i, j
}
