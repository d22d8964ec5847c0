package supervisor

import (
	"errors"
	"strings"
)

// ErrNUL means that a text holds a NUL byte, which neither an argument nor the
// environment of any Unix process can.
var ErrNUL = errors.New("it holds a NUL byte, which no Unix process can be given")

// Quote returns text that a POSIX shell reads as the one word s, byte for byte:
// quotes, newlines, $ and bytes that are not UTF-8 included. The error is ErrNUL.
func Quote(s string) (string, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return "", ErrNUL
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'", nil
}

// A line is shell text in the making: one call of a function of node.sh.
type line struct {
	b   strings.Builder
	err error
}

// call begins a line with a function's name and its arguments.
func call(function string, args ...string) *line {
	l := &line{}
	l.b.WriteString(function)
	for _, a := range args {
		l.arg(a)
	}
	return l
}

// arg adds one argument. The first that cannot be quoted is the line's error.
func (l *line) arg(s string) {
	q, err := Quote(s)
	if err != nil && l.err == nil {
		l.err = err
	}
	l.b.WriteByte(' ')
	l.b.WriteString(q)
}

// String returns the finished line, with its newline.
func (l *line) String() string { return l.b.String() + "\n" }
