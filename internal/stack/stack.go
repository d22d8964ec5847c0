// Package stack grows the stacks of short goroutines in one step. A stack begins small, and its
// frames are copied each time it doubles. If that happens deep in reflection and I/O, it costs more
// than a small call itself.
package stack

// Reserve makes the goroutine's stack large enough for such a call. Call it first, when there is
// almost nothing to copy yet.
func Reserve() { reserve(false) }

// reserve has a frame of that size. The runtime ensures the space on entry, and does not clear the
// array, because it is not used.
//
//go:noinline
func reserve(use bool) {
	if use {
		var room [6 << 10]byte
		touch(&room)
	}
}

//go:noinline
func touch(*[6 << 10]byte) {}
