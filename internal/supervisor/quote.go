package supervisor

import (
	"errors"
	"strconv"
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

// unquote reads one word that bash's printf %q has quoted, up to the space
// after it, and returns what follows that.
func unquote(s string) (word, rest string, err error) {
	var b strings.Builder
	dollar := false // within $'...'
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case dollar && c == '\'':
			dollar = false
		case c == '\\':
			if i++; i == len(s) {
				return "", "", errUnquote
			}
			if !dollar {
				b.WriteByte(s[i])
				continue
			}
			if '0' <= s[i] && s[i] <= '7' {
				if len(s)-i < 3 {
					return "", "", errUnquote
				}
				n, err := strconv.ParseUint(s[i:i+3], 8, 8)
				if err != nil {
					return "", "", errUnquote
				}
				b.WriteByte(byte(n))
				i += 2
				continue
			}
			at := strings.IndexByte(escapes, s[i])
			if at < 0 {
				return "", "", errUnquote
			}
			b.WriteByte(escaped[at])
		case dollar:
			b.WriteByte(c)
		case c == ' ':
			return b.String(), s[i+1:], nil
		case c == '$' && i+1 < len(s) && s[i+1] == '\'':
			dollar = true
			i++
		case c == '\'': // '' alone is the empty word
			if i++; i == len(s) || s[i] != '\'' {
				return "", "", errUnquote
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errUnquote
}

// What stands after a backslash within $'...', and what it means.
const (
	escapes = `abtnvfreE'"\?`
	escaped = "\a\b\t\n\v\f\r\x1b\x1b'\"\\?"
)

var errUnquote = errors.New("a quoted text does not end")

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
