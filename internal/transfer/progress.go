package transfer

import (
	"io"
	"sync"
)

// A Progress is called with the number of content bytes that have moved so far, and how many these are in all, or zero if
// that is not known. It is called often, by one goroutine at a time. The count goes back if a part of the transfer starts
// again. What is on the other side already does not count.
type Progress func(done, total int64)

// A meter counts the content bytes of one transfer.
type meter struct {
	tell Progress // nil if progress is not asked for

	mu                sync.Mutex
	done, total, sure int64 // sure bytes need not move again
}

func newMeter(tell Progress) *meter { return &meter{tell: tell} }

// expect sets how many bytes will move.
func (m *meter) expect(total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total = total
}

// rewind takes back what has moved since keep.
func (m *meter) rewind() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done = m.sure
}

// keep makes what has moved so far count for good: it need not move again.
func (m *meter) keep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sure = m.done
}

// Write counts content that has moved.
func (m *meter) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += int64(len(p))
	m.tell(m.done, m.total)
	return len(p), nil
}

// count returns w with its bytes counted.
func (m *meter) count(w io.Writer) io.Writer {
	if m.tell == nil {
		return w
	}
	return io.MultiWriter(w, m)
}

// counts returns r with its bytes counted.
func (m *meter) counts(r io.Reader) io.Reader {
	if m.tell == nil {
		return r
	}
	return io.TeeReader(r, m)
}
