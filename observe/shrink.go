package observe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/gputrain/gputrain"
)

// A class is a set of entries that leave a file together, those of the first one first.
type class int

const (
	ofLines    class = iota // what is printed
	ofMeasures              // samples, steps, how far something is
	ofChanges               // what has happened
	ofPools                 // what has happened to a pool as a whole: few
)

var classes = map[string]class{"usage": ofMeasures, "step": ofMeasures, "progress": ofMeasures, "transfer": ofMeasures, "tally": ofMeasures, "cost": ofMeasures, "pool": ofPools}

// classOf returns the class of an entry by its line, whose fields are in the order of entryForm.
func classOf(line []byte) class {
	const kind = `"kind":"`
	head := line[:min(len(line), 500)]
	at := bytes.Index(head, []byte(kind))
	if at < 0 || bytes.Contains(head[:at], []byte(`,"line":{`)) {
		return ofLines
	}
	name, _, _ := bytes.Cut(head[at+len(kind):], []byte(`"`))
	if c, ok := classes[string(name)]; ok {
		return c
	}
	return ofChanges
}

func (l *log) size() (n int64) {
	for _, bytes := range l.bytes {
		n += bytes
	}
	return n
}

// shrink leaves out old entries until half of what the file may have is left, and says how many these are in a Line at the beginning.
// l.mu is held, and the file has everything.
func (l *log) shrink() error {
	var gone [ofPools]int64 // bytes that go, by class
	over := l.size() - l.most/2
	for c := range gone {
		gone[c] = min(over, l.bytes[c])
		over -= gone[c]
	}
	from, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer from.Close()
	temporary := l.path + ".new"
	_ = os.Remove(temporary) // of a program that was killed
	to, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sizes, err := l.keep(from, to, gone)
	if err = errors.Join(err, to.Close()); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	from.Close()
	if err := errors.Join(l.f.Close(), os.Rename(temporary, l.path)); err != nil {
		return err
	}
	if l.f, err = os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0); err != nil {
		return err
	}
	l.w.Reset(l.f)
	l.bytes, l.left = sizes, 0
	return nil
}

// keep copies the entries that stay, after a Line that counts all others.
func (l *log) keep(from io.ReadSeeker, to io.Writer, gone [ofPools]int64) (sizes [ofPools + 1]int64, err error) {
	var first Entry
	left := l.left
	err = divide(from, gone, func([]byte) error { return nil }, func(line []byte) error {
		n := 1
		var e Entry
		if first.Seq == 0 || bytes.Contains(line, []byte(`"omitted":`)) {
			if err := json.Unmarshal(line, &e); err != nil {
				return err
			}
		}
		if e.Line != nil && e.Line.Omitted > 0 {
			n = e.Line.Omitted
		}
		if left += n; first.Seq == 0 {
			first = e
		}
		return nil
	})
	if err != nil {
		return sizes, err
	}
	w := bufio.NewWriterSize(to, 64<<10)
	write := func(line []byte) error {
		sizes[classOf(line)] += int64(len(line))
		_, err := w.Write(line)
		return err
	}
	mark := gputrain.Line{Node: -1, Omitted: left}
	switch {
	case first.Line != nil:
		mark.Time, mark.Pool = first.Line.Time, first.Line.Pool
	case first.Event != nil:
		mark.Time, mark.Pool = first.Event.Time, first.Event.Pool
	}
	line, err := encode(Entry{Seq: first.Seq, Line: &mark})
	if err != nil {
		return sizes, err
	}
	if err := write(line); err != nil {
		return sizes, err
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return sizes, err
	}
	if err := divide(from, gone, write, func([]byte) error { return nil }); err != nil {
		return sizes, err
	}
	return sizes, w.Flush()
}

// divide calls a function for each entry that stays, and another one for each that goes: the first ones of so many bytes of each class.
func divide(from io.Reader, gone [ofPools]int64, stays, goes func(line []byte) error) error {
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := readLine(r)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if c := classOf(line); c == ofPools || gone[c] <= 0 {
			err = stays(line)
		} else {
			gone[c] -= int64(len(line))
			err = goes(line)
		}
		if err != nil {
			return err
		}
	}
}
