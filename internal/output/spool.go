package output

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/gputrain/gputrain/providers/driver"
)

// A Spool keeps one stream of an attempt: its beginning in memory, as far as the share has room, and all of it in a file
// once it is longer, up to the limit. It can be read while it is written.
type Spool struct {
	results *Results
	share   *Share
	attempt string
	name    string // "stdout" or "stderr"
	most    int64  // bytes that are kept
	also    io.Writer
	grew    func() // called after every write, or nil

	mu   sync.Mutex
	head []byte
	full bool  // no more is kept in memory
	n    int64 // bytes that have come
	file *os.File
	path string // of the file, also after it was closed
}

// Kept is the stored part of a stream that has ended.
type Kept struct {
	// Head is the beginning of the stream: all of it if there is no file.
	Head []byte
	// Bytes is how long the stream was, including what was not kept.
	Bytes int64
	// File is the path of the file that has what was kept, or "".
	File string
	// Cut reports that the stream was longer than what was kept.
	Cut bool
}

// Reopen returns a spool that reads what an earlier program has kept.
func Reopen(k Kept) *Spool {
	s := &Spool{head: k.Head, n: k.Bytes, path: k.File, most: int64(len(k.Head))}
	if info, err := os.Stat(k.File); err == nil {
		s.most = max(s.most, info.Size())
	}
	return s
}

// stored returns how many bytes can be read. s.mu is held.
func (s *Spool) stored() int64 { return min(s.n, s.most) }

// truncated returns the error of reading on at the end of a stream that was cut, or nil.
func (s *Spool) truncated(offset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n <= s.most || offset < s.most {
		return nil
	}
	return &driver.Error{Op: "read the output of a job", Kind: driver.ErrLimit,
		Err:  fmt.Errorf("%w: only the first %d bytes of %d were kept", driver.ErrLimit, s.most, s.n),
		Hint: "Limits.OutputBytes of WithLimits bounds them"}
}

// Write keeps p, and also writes it to the spool's writer. It fails if this computer cannot keep p.
func (s *Spool) Write(p []byte) (int, error) {
	if err := s.keep(p); err != nil {
		hint := ""
		if errors.Is(err, syscall.ENOSPC) {
			hint = "; free space here, or choose another folder with WithResultsDir"
		}
		return 0, fmt.Errorf("keep %s of %s on this machine: %w%s", s.name, s.attempt, err, hint)
	}
	if s.grew != nil {
		s.grew()
	}
	if s.also != nil {
		s.also.Write(p)
	}
	return len(p), nil
}

func (s *Spool) keep(p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	came := int64(len(p))
	p = p[:min(came, s.most-s.stored())]
	defer func() { s.n += came }()
	room := 0
	if !s.full {
		room = s.share.take(&s.results.memory, len(p), len(s.head))
		s.full = room < len(p)
	}
	if s.full && s.file == nil {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if s.file != nil {
		if _, err := s.file.Write(p); err != nil {
			return err
		}
	}
	s.head = append(s.head, p[:room]...)
	return nil
}

// spill starts the file with the content of the memory.
func (s *Spool) spill() error {
	var err error
	if s.file, s.path, err = s.results.create(s.attempt, s.name); err != nil {
		return err
	}
	_, err = s.file.Write(s.head)
	return err
}

// readAt reads what is kept from an offset on. It returns 0 at the end of what has come.
func (s *Spool) readAt(b []byte, offset int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case offset < int64(len(s.head)):
		return copy(b, s.head[offset:]), nil
	case offset >= s.stored():
		return 0, nil
	}
	f, err := os.Open(s.path) // s.file may be closed by now
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := f.ReadAt(b[:min(int64(len(b)), s.stored()-offset)], offset)
	if n > 0 {
		err = nil
	}
	return n, err
}

// Close ends the stream and returns what was kept of it, which can still be read. The error is that of closing the file.
func (s *Spool) Close() (Kept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.also = nil // a reader keeps the spool, and not what its writer refers to
	k := Kept{Head: s.head, Bytes: s.n, Cut: s.n > s.most}
	if s.file == nil {
		return k, nil
	}
	k.File = s.path
	return k, s.file.Close()
}
