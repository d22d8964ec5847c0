package output

import "sync"

// leastKept bytes of each stream are kept in memory even if other tasks use up the memory.
const leastKept = 4 << 10

// A memory bounds how many bytes of output are kept in memory for tasks whose results the caller has not received. What
// finds no room goes to disk.
type memory struct {
	stream, all int64 // bytes of one stream, and of all together

	mu    sync.Mutex
	taken int64
}

// A Share is the part of the memory for outputs that one task has taken. Its zero value has taken nothing.
type Share struct {
	mu     sync.Mutex
	memory *memory
	taken  int64
}

// take takes up to n bytes for a stream of which kept bytes are in memory, and returns how many it got.
func (s *Share) take(m *memory, n int, kept int) int {
	n = int(min(int64(n), max(m.stream-int64(kept), 0)))
	free := min(n, max(leastKept-kept, 0)) // not counted
	m.mu.Lock()
	got := min(int64(n-free), max(m.all-m.taken, 0))
	m.taken += got
	m.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory = m
	s.taken += got
	return free + int(got)
}

// Return frees what the task has taken. It is called when the caller has the task's result, and before another attempt.
func (s *Share) Return() {
	s.mu.Lock()
	m, taken := s.memory, s.taken
	s.taken = 0
	s.mu.Unlock()
	if taken > 0 {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.taken -= taken
	}
}
