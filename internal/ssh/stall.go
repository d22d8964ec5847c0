package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gputrain/gputrain/internal/overdue"
)

// A node that can be reached has stalled if a command of ExecMoving takes and sends no byte for StallPatience, and
// overdue.Grace after that. This leaves time for 2 MiB of buffered data over a link of 5 kB/s.
const StallPatience = 5 * time.Minute

// ErrStalled means that a node can be reached and does nothing.
var ErrStalled = errors.New("the node has stalled")

// ExecMoving is Exec for a command that always reads its stdin soon, or prints: the last command in it must read all of
// stdin and answer. If no byte moves for too long, ExecMoving fails with ErrStalled.
func (c *Client) ExecMoving(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	clock := overdue.New(StallPatience, overdue.Grace, func() bool { _, down := c.Down(); return !down })
	defer clock.Stop()
	moving, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	defer func() { cancel(nil); <-over }()
	go func() {
		defer close(over)
		for {
			select {
			case <-moving.Done():
				return
			case <-clock.Due():
				if clock.Over() {
					cancel(fmt.Errorf("%w: nothing moved for %v", ErrStalled, StallPatience+overdue.Grace))
				}
			}
		}
	}()
	if stdin != nil {
		stdin = &movingReader{stdin, clock}
	}
	err := c.Exec(moving, command, stdin, movingWriter(stdout, clock), movingWriter(stderr, clock))
	if cause := context.Cause(moving); err != nil && errors.Is(cause, ErrStalled) {
		return cause
	}
	return err
}

// A movingReader restarts a clock whenever it reads something.
type movingReader struct {
	r     io.Reader
	clock *overdue.Clock
}

func (m *movingReader) Read(p []byte) (int, error) {
	m.clock.Restart()
	return m.r.Read(p)
}

// movingWriter returns a writer that restarts a clock whenever it writes something.
func movingWriter(w io.Writer, clock *overdue.Clock) io.Writer {
	if w == nil {
		w = io.Discard
	}
	return writerFunc(func(p []byte) (int, error) {
		clock.Restart()
		return w.Write(p)
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
