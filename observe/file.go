package observe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// flushPause is how long an entry may wait before it is in the file. A program that is killed loses that much.
const flushPause = 20 * time.Millisecond

// A log is the file of a Recorder. After an error it takes nothing more.
type log struct {
	path string

	mu    sync.Mutex
	most  int64
	f     *os.File
	w     *bufio.Writer
	bytes [ofPools + 1]int64 // by class
	left  int                // entries that were left out since the last shrinking
	timer *time.Timer        // flushes; nil if nothing waits
	err   error
}

// openLog begins a file. One that is there gets another name.
func openLog(path string, most int64) (*log, error) {
	failed := func(err error) (*log, error) {
		return nil, fmt.Errorf("observe: the file of events: %w; Config.File names another one, or none", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return failed(err)
	}
	if err := makeRoom(path); err != nil {
		return failed(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return failed(err)
	}
	return &log{path: path, most: most, f: f, w: bufio.NewWriterSize(f, 64<<10)}, nil
}

// add writes an entry.
func (l *log) add(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.failed(l.write(e))
	}
	if l.timer == nil && l.err == nil {
		l.timer = time.AfterFunc(flushPause, l.flush)
	}
}

// write writes an entry, or leaves it out if it is too long. If the file is then too long, it becomes shorter. l.mu is held.
func (l *log) write(e Entry) error {
	text, err := encode(e)
	if err != nil {
		return err
	}
	if len(text) > maxEntry {
		l.left++
		return nil
	}
	if _, err := l.w.Write(text); err != nil {
		return err
	}
	l.bytes[classOf(text)] += int64(len(text))
	if l.size() <= l.most {
		return nil
	}
	if err := l.w.Flush(); err != nil {
		return err
	}
	return l.shrink()
}

// encode returns an entry as a line.
func encode(e Entry) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(e.form())
	return b.Bytes(), err
}

func (l *log) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	if l.err == nil {
		l.failed(l.w.Flush())
	}
}

// failed keeps the first error. l.mu is held.
func (l *log) failed(err error) {
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("observe: the file of events has not everything: %w", err)
	}
}

// close returns what went wrong, once the file has everything.
func (l *log) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.err == nil {
		l.failed(l.w.Flush())
	}
	l.failed(l.f.Close())
	return l.err
}

// maxEntry bounds an entry in a file, in bytes. A recorder writes none that is longer.
const maxEntry = 16 << 20

// readLine returns the next line. The error is io.EOF at the end, and after a line that is not complete.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxEntry {
			return nil, fmt.Errorf("it has more than %d bytes", maxEntry)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// entries calls each with the entries of a file, until it returns false. An incomplete last line, as of a program that was
// killed, is left out.
func entries(path string, each func(Entry) bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	for n := 1; ; n++ {
		line, err := readLine(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if !each(e) {
			return nil
		}
	}
}

// Read reads the file of a Recorder, of this program or of an earlier one, also of one that was killed. At is then the time of
// the last entry.
func Read(file string) (Run, error) {
	s := newState(0)
	err := entries(file, func(e Entry) bool {
		s.take(e)
		return true
	})
	if err != nil {
		return Run{}, fmt.Errorf("observe: %s is not a file of events: %w", file, err)
	}
	return s.run(s.at), nil
}
