package gputrain

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
)

// A spool keeps the beginning of a stream in memory, as far as its share has room, and
// all of it in a file once it is longer, but no more than most. It can be read while it is
// written.
type spool struct {
	dir     *resultsDir
	share   *outputShare
	attempt string
	name    string // "stdout" or "stderr"
	most    int64  // how much is kept
	also    io.Writer
	grew    func() // called after every write, or nil

	mu   sync.Mutex
	kept []byte
	full bool  // no more is kept in memory
	n    int64 // how much has come
	file *os.File
	path string // of the file, also once it is closed
}

func newSpool(dir *resultsDir, share *outputShare, attempt, name string, most int64, also io.Writer) *spool {
	return &spool{dir: dir, share: share, attempt: attempt, name: name, most: most, also: also}
}

// keptSpool is the spool of a stream that an earlier program has kept.
func keptSpool(kept []byte, n int64, path string) *spool {
	s := &spool{kept: kept, n: n, path: path, most: int64(len(kept))}
	if info, err := os.Stat(path); err == nil {
		s.most = max(s.most, info.Size())
	}
	return s
}

// stored is how much of the stream can be read. s.mu is held.
func (s *spool) stored() int64 { return min(s.n, s.most) }

// cut reports whether more came than is kept.
func (s *spool) cut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n > s.most
}

// truncated is the error of reading on where a stream was cut, or nil.
func (s *spool) truncated(offset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n <= s.most || offset < s.most {
		return nil
	}
	return &Error{Op: "read the output of a job", Kind: ErrLimit,
		Err:  fmt.Errorf("%w: only the first %d bytes of %d were kept", ErrLimit, s.most, s.n),
		Hint: "Limits.OutputBytes of WithLimits bounds them"}
}

func (s *spool) Write(p []byte) (int, error) {
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

func (s *spool) keep(p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	came := int64(len(p))
	p = p[:min(came, s.most-s.stored())]
	defer func() { s.n += came }()
	room := 0
	if !s.full {
		room = s.share.take(len(p), len(s.kept))
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
	s.kept = append(s.kept, p[:room]...)
	return nil
}

func (s *spool) spill() error {
	var err error
	if s.file, s.path, err = s.dir.create(s.attempt, s.name); err != nil {
		return err
	}
	_, err = s.file.Write(s.kept)
	return err
}

// readAt reads what has come, from an offset on: nothing where that is all.
func (s *spool) readAt(b []byte, offset int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case offset < int64(len(s.kept)):
		return copy(b, s.kept[offset:]), nil
	case offset >= s.stored():
		return 0, nil
	}
	f, err := os.Open(s.path) // it may be closed for writing by now
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

// close returns the file that holds what is kept of the stream, or "".
func (s *spool) close() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return "", nil
	}
	return s.path, s.file.Close()
}

// tailBytes and tailLines bound what an error repeats of stderr.
const tailBytes, tailLines = 4 << 10, 20

// A tail keeps the last bytes that were written to it.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p[max(0, len(p)-tailBytes):]...)
	t.b = t.b[max(0, len(t.b)-tailBytes):]
	return len(p), nil
}

// String returns the last lines.
func (t *tail) String() string {
	lines := strings.Split(strings.TrimRight(string(t.b), "\n"), "\n")
	if len(t.b) == tailBytes && len(lines) > 1 {
		lines = lines[1:] // its start is gone
	}
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
