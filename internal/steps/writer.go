package steps

import (
	"bytes"
	"strings"
)

// A Writer finds the steps in a stream, whatever the pieces in which that comes. It holds back a part of one line at
// most. One goroutine at a time may use it.
type Writer struct {
	// Found is called with each step.
	Found func(Step)
	// Clean, if not nil, removes secrets from a line before it is read.
	Clean func(string) string

	held []byte // the beginning of a line
	long bool   // the line is too long for a step
}

// Write never fails.
func (w *Writer) Write(p []byte) (int, error) {
	all := len(p)
	if len(w.held) > 0 || w.long {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			w.hold(p)
			return all, nil
		}
		w.hold(p[:i])
		w.Flush()
		p = p[i+1:]
	}
	last := bytes.LastIndexByte(p, '\n') + 1
	w.lines(p[:last])
	w.hold(p[last:])
	return all, nil
}

// Flush reads a last line that has no end.
func (w *Writer) Flush() {
	if !w.long {
		w.line(w.held)
	}
	w.held, w.long = w.held[:0], false
}

// lines reads whole lines. Most have no step.
func (w *Writer) lines(p []byte) {
	for {
		i := bytes.Index(p, []byte(mark))
		if i < 0 {
			return
		}
		begin := bytes.LastIndexByte(p[:i], '\n') + 1
		end := i + bytes.IndexByte(p[i:], '\n')
		w.line(p[begin:end])
		p = p[end+1:]
	}
}

// hold adds a piece of a line that has not ended.
func (w *Writer) hold(p []byte) {
	if i := bytes.LastIndexByte(bytes.TrimRight(p, "\r"), '\r'); i >= 0 { // it has begun anew
		p, w.held, w.long = p[i+1:], w.held[:0], false
	}
	switch {
	case !w.long && len(w.held)+len(p) <= longestLine+len("\r"):
		w.held = append(w.held, p...)
	case bytes.HasSuffix(p, []byte("\r")): // the next piece may begin it anew
		w.held, w.long = []byte("\r"), false
	default:
		w.held, w.long = nil, true
	}
}

// line reads one line. Of one that returns to its start, as a bar of progress does, it reads what is after that.
func (w *Writer) line(p []byte) {
	p = bytes.TrimRight(p, "\r")
	p = p[bytes.LastIndexByte(p, '\r')+1:]
	if len(p) > longestLine || !bytes.Contains(p, []byte(mark)) {
		return
	}
	text := string(p)
	if w.Clean != nil {
		text = w.Clean(text)
	}
	// mpirun may print the lines of its processes without what ends all but the last: a step can follow another one.
	before, rest, _ := strings.Cut(text, mark)
	for words := range strings.SplitSeq(rest, mark) {
		s, ok := Parse(before + mark + words)
		if !ok {
			return
		}
		w.Found(s)
		before = ""
	}
}
