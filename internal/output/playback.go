package output

import (
	"io"
	"sync"
)

// A Playback is one stream of a task: the streams of its attempts, in order. It can be read while attempts are added
// and written. Its zero value is empty and open.
type Playback struct {
	mu     sync.Mutex
	spools []*Spool
	over   bool
	grown  chan struct{} // closed, and replaced, when there is more to read; nil if no reader waits
}

// Add appends the stream of an attempt, before anything is written to it.
func (p *Playback) Add(s *Spool) {
	s.grew = p.wake
	p.mu.Lock()
	p.spools = append(p.spools, s)
	p.mu.Unlock()
	p.wake()
}

// End ends the stream: readers get io.EOF after the last attempt.
func (p *Playback) End() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.wake()
}

// Reader returns a reader from the start, with a position of its own. Read blocks until there is more, or End was
// called. It fails with driver.ErrLimit at the end of an attempt's stream that was cut.
func (p *Playback) Reader() io.Reader { return &playbackReader{playback: p} }

// wake wakes the readers that wait.
func (p *Playback) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.grown != nil {
		close(p.grown)
		p.grown = nil
	}
}

// at returns the stream of attempt i, whether it is the last one so far, whether none can follow, and what to wait for
// if it has no more.
func (p *Playback) at(i int) (s *Spool, last, over bool, grown <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.grown == nil {
		p.grown = make(chan struct{})
	}
	if i < len(p.spools) {
		s = p.spools[i]
	}
	return s, i >= len(p.spools)-1, p.over, p.grown
}

type playbackReader struct {
	playback *Playback
	attempt  int
	offset   int64
}

func (r *playbackReader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		// The stream's state is read before its bytes, so that none can come in between.
		s, last, over, grown := r.playback.at(r.attempt)
		if s != nil {
			n, err := s.readAt(b, r.offset)
			r.offset += int64(n)
			if n > 0 || err != nil {
				return n, err
			}
			if err := s.truncated(r.offset); err != nil {
				return 0, err
			}
		}
		switch {
		case !last:
			r.attempt, r.offset = r.attempt+1, 0
		case over:
			return 0, io.EOF
		default:
			<-grown
		}
	}
}
