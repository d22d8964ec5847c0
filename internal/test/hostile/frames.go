package hostile

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"strings"
)

// A Frame is one of the supervisor's: a line, and with O as many bytes as it says.
type Frame struct {
	Line string // without its newline
	Data []byte
}

// Words are those of the line; the first is the letter of its kind.
func (f Frame) Words() []string { return strings.Split(f.Line, " ") }

// With returns the frame with another word.
func (f Frame) With(i int, word string) Frame {
	w := f.Words()
	if i < len(w) {
		w[i] = word
	}
	return Frame{strings.Join(w, " "), f.Data}
}

// Bytes is the frame as it is sent.
func (f Frame) Bytes() []byte { return append([]byte(f.Line+"\n"), f.Data...) }

// maxData bounds what is read of one frame: the node behind sends far less.
const maxData = 16 << 20

// Frames has each frame of a control session replaced by what rewrite returns.
// What comes before the greeting's end passes.
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

// One rewrites frames of one letter, and passes the others.
func One(letter string, rewrite func(Frame) [][]byte) func(Frame) [][]byte {
	return func(f Frame) [][]byte {
		if f.Words()[0] == letter {
			return rewrite(f)
		}
		return [][]byte{f.Bytes()}
	}
}

// Lines are frames of text.
func Lines(lines ...string) [][]byte { return [][]byte{[]byte(strings.Join(lines, "\n") + "\n")} }

// LongLine is a line without an end.
func LongLine(size int) []byte { return bytes.Repeat([]byte("x"), size) }
