package status

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	// A stream that has nothing to send sends a comment every keepAlive, so that proxies keep it open.
	keepAlive = 15 * time.Second
	// maxStreams is how many clients may follow a Run at once.
	maxStreams = 64
)

// events streams the Run as server-sent events.
func (h *handler) events(w http.ResponseWriter, q *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // or nginx waits for more
	if q.Method == http.MethodHead {
		return
	}
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		header.Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d clients follow this run already. Close some of them, and try again.", cap(h.streams)))
		return
	}
	to := h.writer(w)
	s := &stream{h: h, control: to.control, out: bufio.NewWriterSize(to, 1<<15)}
	fmt.Fprint(s.out, "retry: 2000\n\n") // milliseconds
	s.seq, s.known = lastEventID(q)
	s.run(q.Context())
}

// lastEventID returns the number of the last event that the client has, if it says so.
func lastEventID(q *http.Request) (int64, bool) {
	seq, err := strconv.ParseInt(q.Header.Get("Last-Event-ID"), 10, 64)
	return seq, err == nil && seq >= 0
}

// A stream is one client that follows the Run.
type stream struct {
	h       *handler
	out     *bufio.Writer
	control *http.ResponseController
	seq     int64 // of the Run that the client has
	known   bool  // it has one
	ended   bool  // it knows that no more comes
}

// run sends events until ctx ends, or the client does not take them. The end of ctx is that of the server, mostly with its program,
// and the client gets what it lacks of the run: that its machines are gone.
func (s *stream) run(ctx context.Context) {
	defer s.end()
	for {
		next := time.Now().Add(updatePause)
		if s.send(s.h.feed.view(updatePause)) != nil {
			return
		}
		for !s.changed(ctx) {
			if ctx.Err() != nil {
				return
			}
			fmt.Fprint(s.out, ": nothing new\n\n")
			if s.flush() != nil {
				return
			}
		}
		if sleep(ctx, time.Until(next)) != nil {
			return
		}
	}
}

// send sends what the client lacks.
func (s *stream) send(v *view) error {
	if s.known && v.run.Seq == s.seq {
		return s.flush()
	}
	p, name := part{summary: true}, "run"
	if s.known {
		if update, ok := v.after(s.seq); ok {
			p, name = update, "update"
		}
	}
	fmt.Fprintf(s.out, "id: %d\nevent: %s\ndata: ", v.run.Seq, name)
	if err := writeRun(s.out, v.run, p); err != nil {
		return err
	}
	fmt.Fprint(s.out, "\n\n")
	s.seq, s.known = v.run.Seq, true
	return s.flush()
}

// end sends the run's last state, and that no more comes.
func (s *stream) end() error {
	if s.ended {
		return nil
	}
	s.ended = true
	if err := s.send(s.h.feed.view(0)); err != nil {
		return err
	}
	fmt.Fprint(s.out, "event: end\ndata: {}\n\n")
	return s.flush()
}

func (s *stream) flush() error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	return s.control.Flush()
}

// changed waits until there is something that the client does not have. It reports false after keepAlive, or if ctx ends.
func (s *stream) changed(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, keepAlive)
	defer cancel()
	for range s.h.feed.source.Events(ctx, s.seq) {
		return true
	}
	if ctx.Err() == nil && s.end() != nil { // the recorder is closed: nothing comes any more
		return false
	}
	<-ctx.Done()
	return false
}

// sleep returns an error if ctx ends before d is over.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A deadlineWriter gives each write a deadline, so that a client that does not read is disconnected. The server removes the
// deadline after the answer.
type deadlineWriter struct {
	out     http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

func (h *handler) writer(w http.ResponseWriter) deadlineWriter {
	return deadlineWriter{w, http.NewResponseController(w), h.writeTimeout}
}

// Write implements [io.Writer].
func (w deadlineWriter) Write(b []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout)) // a server without deadlines has its own rules
	return w.out.Write(b)
}
