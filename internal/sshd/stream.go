package sshd

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// A writer blocks while its stream holds streamSize bytes.
	streamSize = 1 << 20
	// A chunk of chunkSize bytes holds the largest packet that x/crypto/ssh sends.
	chunkSize = 64 << 10
)

// Chunks are pooled, so an idle stream holds no memory and a busy one allocates none.
var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// A stream is one direction of a Pipe: a bounded queue of bytes. It waits with sync.Cond only,
// never on a mutex that is held for long, so that a synctest bubble counts its readers and writers
// as blocked.
type stream struct {
	mu   sync.Mutex
	cond sync.Cond // signalled whenever anything below changes

	queue []*[chunkSize]byte
	head  int // offset of the next read in the first chunk
	tail  int // offset of the next write in the last chunk
	size  int // bytes held

	writing     bool // a Write is in progress; others wait, so that writes do not interleave
	writeClosed bool
	readClosed  bool

	readDeadline, writeDeadline deadline
}

func newStream() *stream {
	s := new(stream)
	s.cond.L = &s.mu
	return s
}

func (s *stream) read(b []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.readClosed:
			return 0, net.ErrClosed
		case s.readDeadline.passed:
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case s.size > 0:
			n = s.take(b)
			s.cond.Broadcast()
			return n, nil
		case s.writeClosed:
			return 0, io.EOF
		}
		s.cond.Wait()
	}
}

func (s *stream) write(b []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.writing {
		if err := s.writeErr(); err != nil {
			return 0, err
		}
		s.cond.Wait()
	}
	s.writing = true
	defer func() {
		s.writing = false
		s.cond.Broadcast()
	}()
	for {
		if err := s.writeErr(); err != nil {
			return n, err
		}
		if room := streamSize - s.size; room > 0 {
			n += s.put(b[n:min(len(b), n+room)])
			s.cond.Broadcast()
		}
		if n == len(b) {
			return n, nil
		}
		s.cond.Wait()
	}
}

// writeErr returns why nothing can be written. The caller holds mu.
func (s *stream) writeErr() error {
	switch {
	case s.writeClosed:
		return net.ErrClosed
	case s.readClosed:
		return io.ErrClosedPipe
	case s.writeDeadline.passed:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// put appends all of b. The caller holds mu and has checked for room.
func (s *stream) put(b []byte) (n int) {
	for n < len(b) {
		if len(s.queue) == 0 || s.tail == chunkSize {
			s.queue = append(s.queue, chunks.Get().(*[chunkSize]byte))
			s.tail = 0
		}
		c := copy(s.queue[len(s.queue)-1][s.tail:], b[n:])
		s.tail += c
		n += c
	}
	s.size += n
	return n
}

// take removes up to len(b) bytes. The caller holds mu.
func (s *stream) take(b []byte) (n int) {
	for n < len(b) && s.size > 0 {
		first := s.queue[0]
		end := chunkSize
		if len(s.queue) == 1 {
			end = s.tail
		}
		c := copy(b[n:], first[s.head:end])
		s.head += c
		s.size -= c
		n += c
		if s.head == end {
			chunks.Put(first)
			s.queue[0] = nil
			s.queue = s.queue[1:]
			s.head = 0
		}
	}
	if s.size == 0 {
		s.queue = nil
	}
	return n
}

// closeWrite ends the stream. Its content can still be read.
func (s *stream) closeWrite() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeClosed = true
	s.writeDeadline.stop()
	s.cond.Broadcast()
}

// closeRead drops the stream's content and fails its writer.
func (s *stream) closeRead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readClosed = true
	s.readDeadline.stop()
	for _, c := range s.queue {
		chunks.Put(c)
	}
	s.queue, s.size, s.head, s.tail = nil, 0, 0, 0
	s.cond.Broadcast()
}

// A deadline is a time after which a read or write fails. Its stream's mu guards it.
type deadline struct {
	timer  *time.Timer
	passed bool
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// setDeadline moves a deadline of s. The zero time means never.
func (s *stream) setDeadline(d *deadline, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.stop()
	d.passed = false
	if !t.IsZero() {
		if wait := time.Until(t); wait <= 0 {
			d.passed = true
		} else {
			s.startTimer(d, wait)
		}
	}
	s.cond.Broadcast()
}

// startTimer makes the deadline pass after d. The caller holds mu, so that the timer is stored
// before it can fire.
func (s *stream) startTimer(d *deadline, wait time.Duration) {
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if d.timer == timer { // otherwise the deadline was moved meanwhile
			d.passed = true
			s.cond.Broadcast()
		}
	})
	d.timer = timer
}
