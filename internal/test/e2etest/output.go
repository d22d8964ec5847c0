package e2etest

import (
	"bytes"
	"sync"

	"github.com/gputrain/gputrain"
)

// A lockedBuffer can be read while another goroutine writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Shown collects the output that a pool shows.
type Shown struct{ Out, Err lockedBuffer }

// Option makes a pool show its output in s.
func (s *Shown) Option() gputrain.Option { return gputrain.WithOutput(&s.Out, &s.Err) }
