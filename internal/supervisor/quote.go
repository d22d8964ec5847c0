package supervisor

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrNUL means that a text holds a NUL byte, which no argument and no environment variable can hold.
var ErrNUL = errors.New("it holds a NUL byte, which cannot be passed to a Unix process")

// Quote returns text that a POSIX shell reads as the one word s, byte for byte:
// quotes, newlines, $ and bytes that are not UTF-8 included. The error is ErrNUL.
func Quote(s string) (string, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return "", ErrNUL
	}
	return quote(s), nil
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// unquote reads one word that bash's printf %q has quoted, up to the space after it, and returns the rest.
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

// The characters after a backslash within $'...', and their meanings.
const (
	escapes = `abtnvfreE'"\?`
	escaped = "\a\b\t\n\v\f\r\x1b\x1b'\"\\?"
)

var errUnquote = errors.New("a quoted text does not end")

// A call is a call of a function of node.sh, or of session.pl and runner.pl, whose functions have no gt_.
type call struct {
	words []string
	err   error // why it cannot be sent
}

// newCall returns a call with its first arguments.
func newCall(function string, args ...string) *call {
	c := &call{words: make([]string, 1, 1+len(args))}
	c.words[0] = function
	c.args(args...)
	return c
}

// args adds arguments. If one cannot be sent, that is the call's error.
func (c *call) args(args ...string) {
	for _, a := range args {
		if c.err == nil && strings.IndexByte(a, 0) >= 0 {
			c.err = ErrNUL
		}
		c.words = append(c.words, a)
	}
}

// appendShell adds the call to b as a line of shell text.
func (c *call) appendShell(b []byte) []byte {
	b = append(append(b, "gt_"...), c.words[0]...)
	for _, w := range c.words[1:] {
		b = append(append(b, ' '), quote(w)...)
	}
	return append(b, '\n')
}

// appendMessage adds the call to b in the form of session.pl's messages.
func (c *call) appendMessage(b []byte) []byte {
	n := len(c.words) - 1
	for _, w := range c.words {
		n += len(w)
	}
	b = fmt.Appendf(b, "%08d", n)
	for i, w := range c.words {
		if i > 0 {
			b = append(b, 0)
		}
		b = append(b, w...)
	}
	return b
}

// String returns the call as shell text.
func (c *call) String() string { return string(c.appendShell(nil)) }
