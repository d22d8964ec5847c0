package hostile

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"strings"
)

// A Frame is a frame of the supervisor: a line and, if the line begins with O, as many bytes as it announces.
type Frame struct {
	Line string // without the newline
	Data []byte
}

// Words returns the line's words. The first is the letter of the frame's kind.
func (f Frame) Words() []string { return strings.Split(f.Line, " ") }

// With returns the frame with word i replaced.
func (f Frame) With(i int, word string) Frame {
	w := f.Words()
	if i < len(w) {
		w[i] = word
	}
	return Frame{strings.Join(w, " "), f.Data}
}

// Bytes returns the encoded frame.
func (f Frame) Bytes() []byte { return append([]byte(f.Line+"\n"), f.Data...) }

// maxData limits how much of one frame is read. The real node sends far less.
const maxData = 16 << 20

// Frames replaces each frame of a control session with the result of rewrite. The greeting passes unchanged.
func Frames(rewrite func(Frame) [][]byte) Tamper {
	return func(_ *Session, dst io.Writer, src io.Reader) {
		r := bufio.NewReader(src)
		for greeted := false; ; {
			line, err := r.ReadString('\n')
			if err != nil {
				io.WriteString(dst, line)
				return
			}
			if !greeted {
				greeted = strings.Contains(line, "gputrain-supervisor ")
				io.WriteString(dst, line)
				continue
			}
			f := Frame{Line: strings.TrimSuffix(line, "\n")}
			if w := f.Words(); w[0] == "O" && len(w) == 5 {
				if n, err := strconv.Atoi(w[4]); err == nil && n >= 0 && n <= maxData {
					f.Data = make([]byte, n)
					if _, err := io.ReadFull(r, f.Data); err != nil {
						return
					}
				}
			}
			for _, b := range rewrite(f) {
				if _, err := dst.Write(b); err != nil {
					return
				}
			}
		}
	}
}

// One rewrites frames of one letter, and passes all others.
func One(letter string, rewrite func(Frame) [][]byte) func(Frame) [][]byte {
	return func(f Frame) [][]byte {
		if f.Words()[0] == letter {
			return rewrite(f)
		}
		return [][]byte{f.Bytes()}
	}
}

// Lines returns lines of text as frames.
func Lines(lines ...string) [][]byte { return [][]byte{[]byte(strings.Join(lines, "\n") + "\n")} }

// LongLine returns a line without a newline.
func LongLine(size int) []byte { return bytes.Repeat([]byte("x"), size) }
