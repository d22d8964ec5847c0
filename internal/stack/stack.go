// Package stack spares short goroutines the growth of their stacks. A stack
// begins small and is copied, frame by frame, each time it doubles; deep in
// reflection and I/O that costs more than a small call does by itself.
package stack

// Reserve makes the goroutine's stack as large as such a call needs. It is
// called first, where there is next to nothing to copy.
func Reserve() { reserve(false) }

// reserve has a frame of the size, whose room is checked on entry. It is not
// cleared, as it is not used.
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
