package gputrain

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// A resultsDir is where what is too long for memory goes, made once it is needed.
type resultsDir struct {
	path string
	once sync.Once
	err  error
}

func newResultsDir(poolID, path string) *resultsDir {
	if path == "" {
		path = filepath.Join(os.TempDir(), "gputrain-results-"+poolID)
	}
	return &resultsDir{path: path}
}

// task returns a task's own folder, and makes it.
func (d *resultsDir) task(id string) (string, error) {
	d.once.Do(func() {
		if d.path, d.err = filepath.Abs(d.path); d.err == nil {
			d.err = os.MkdirAll(d.path, 0o700)
		}
	})
	if d.err != nil {
		return "", d.err
	}
	dir := filepath.Join(d.path, id)
	return dir, os.MkdirAll(dir, 0o700)
}

// A spool keeps the first KeptOutput bytes of a stream in memory, and all of
// it in a file once it is longer.
type spool struct {
	dir  *resultsDir
	task string
	name string // "stdout" or "stderr"
	also io.Writer

	kept []byte
	n    int64
	file *os.File
}

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && len(s.kept)+len(p) > KeptOutput {
		if err := s.spill(); err != nil {
			return 0, fmt.Errorf("keep %s of %s: %w", s.name, s.task, err)
		}
	}
	if s.file != nil {
		if _, err := s.file.Write(p); err != nil {
			return 0, fmt.Errorf("keep %s of %s: %w", s.name, s.task, err)
		}
	}
	s.kept = append(s.kept, p[:min(len(p), KeptOutput-len(s.kept))]...)
	s.n += int64(len(p))
	if s.also != nil {
		s.also.Write(p)
	}
	return len(p), nil
}

func (s *spool) spill() error {
	dir, err := s.dir.task(s.task)
	if err != nil {
		return err
	}
	if s.file, err = os.Create(filepath.Join(dir, s.name)); err != nil {
		return err
	}
	_, err = s.file.Write(s.kept)
	return err
}

// close returns the file that holds the whole stream, or "".
func (s *spool) close() (string, error) {
	if s.file == nil {
		return "", nil
	}
	return s.file.Name(), s.file.Close()
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
