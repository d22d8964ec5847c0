package gputrain

import "sync"

// leastKept is how much of each output stream is kept in memory whatever others take.
const leastKept = 4 << 10

// outputMemory is the memory for outputs of tasks whose results the program has not got
// yet. What finds no room goes to disk.
type outputMemory struct {
	stream, all int64 // how much of one stream is kept, and of all together

	mu    sync.Mutex
	taken int64
}

func newOutputMemory(l Limits) *outputMemory {
	return &outputMemory{stream: l.keptOutputBytes(), all: l.keptTotalBytes()}
}

// An outputShare is what one task has of the memory.
type outputShare struct {
	of *outputMemory

	mu    sync.Mutex
	taken int64
}

// take takes up to n bytes for a stream of which so many are kept, and returns how many
// it got.
func (s *outputShare) take(n int, kept int) int {
	n = int(min(int64(n), max(s.of.stream-int64(kept), 0)))
	free := min(n, max(leastKept-kept, 0)) // of charge
	s.of.mu.Lock()
	got := min(int64(n-free), max(s.of.all-s.of.taken, 0))
	s.of.taken += got
	s.of.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken += got
	return free + int(got)
}

// giveBack leaves to others what the task took: the program has its result now, or another
// attempt follows.
func (s *outputShare) giveBack() {
	s.mu.Lock()
	taken := s.taken
	s.taken = 0
	s.mu.Unlock()
	if taken > 0 {
		s.of.mu.Lock()
		defer s.of.mu.Unlock()
		s.of.taken -= taken
	}
}
