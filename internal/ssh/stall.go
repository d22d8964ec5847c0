package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gputrain/gputrain/internal/overdue"
)

const (
	// A node that can be reached has stalled if a command of ExecMoving takes nothing of its stdin, and sends less than
	// stallLeast bytes, within StallPatience and overdue.Grace. This leaves time for 2 MiB of buffered data over a link of
	// 5 kB/s.
	StallPatience = 5 * time.Minute
	stallLeast    = 64 << 10
	// Without stdin nothing is buffered, and the command is a short one: it has AnswerPatience and AnswerGrace.
	AnswerPatience = time.Minute
	AnswerGrace    = 30 * time.Second
)

// ErrStalled means that a node can be reached and does nothing.
var ErrStalled = errors.New("the node has stalled")

// ExecMoving is Exec for a command that always reads its stdin soon, or prints: the last command in it must read all of
// stdin and answer. If too few bytes move for too long, ExecMoving fails with ErrStalled. So what bounds the two outputs
// bounds its time too: a node that sends a byte now and then gains none.
func (c *Client) ExecMoving(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	patience, grace := AnswerPatience, AnswerGrace
	if stdin != nil {
		patience, grace = StallPatience, overdue.Grace
	}
	clock := overdue.New(patience, grace, func() bool { _, down := c.Down(); return !down })
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
					cancel(fmt.Errorf("%w: less than %d bytes moved within %v", ErrStalled, stallLeast, patience+grace))
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

// movingWriter returns a writer that restarts a clock whenever it has written stallLeast bytes: an answer is no work, and a
// node may send it byte by byte.
func movingWriter(w io.Writer, clock *overdue.Clock) io.Writer {
	if w == nil {
		w = io.Discard
	}
	since := 0
	return writerFunc(func(p []byte) (int, error) {
		if since += len(p); since >= stallLeast {
			since = 0
			clock.Restart()
		}
		return w.Write(p)
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
