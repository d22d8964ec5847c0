// Package printable makes texts from clouds and nodes safe for a terminal: they cannot move the
// cursor, change colours, or erase or reorder the text around them.
package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns the visible part of a text. It keeps newlines and tabs, and removes terminal control
// sequences, other control characters, characters that change the direction of writing, and
// invisible tags. Bytes that are not UTF-8 become U+FFFD. A carriage return ends a line.
func Text(s string) string {
	if isPlain(s) {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	b.Grow(len(s))
	for s != "" {
		if n := sequence(s); n > 0 {
			s = s[n:]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		s = s[n:]
		switch {
		case r == '\r', r == '\u2028', r == '\u2029':
			b.WriteByte('\n')
		case r == '\n' || r == '\t' || !isHidden(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Line is Text for one line, without its end. If the line returns to its start, as progress bars
// do, only its last state is kept.
func Line(s string) string {
	s = strings.TrimRight(s, "\r\n")
	s = s[strings.LastIndexByte(s, '\r')+1:]
	return strings.ReplaceAll(Text(s), "\n", " ")
}

// isPlain reports whether Text would change nothing, by looking at the bytes alone.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x7f || c < ' ' && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// isHidden reports whether a character controls a terminal, or is invisible and changes how others
// are shown.
func isHidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\ufeff' || 0xe0000 <= r && r <= 0xe007f
}

// longest bounds a sequence. A sequence that does not end within it does not count as one, and only
// its first character is removed.
const longest = 4096

// sequence returns the length of the terminal control sequence (ECMA-48) at the start of a text, or
// 0.
func sequence(s string) int {
	switch {
	case strings.HasPrefix(s, "\x1b["):
		return control(s, 2)
	case strings.HasPrefix(s, "\u009b"): // the same as one character
		return control(s, len("\u009b"))
	case len(s) >= 2 && s[0] == '\x1b' && strings.IndexByte("]PX^_", s[1]) >= 0:
		return text(s, 2)
	case strings.HasPrefix(s, "\u009d"), strings.HasPrefix(s, "\u0090"), strings.HasPrefix(s, "\u0098"), strings.HasPrefix(s, "\u009e"), strings.HasPrefix(s, "\u009f"):
		return text(s, 2)
	case s[0] == '\x1b':
		n := 1
		for n < len(s) && n < longest && ' ' <= s[n] && s[n] <= '/' {
			n++
		}
		if n < len(s) && '0' <= s[n] && s[n] <= '~' {
			n++
		}
		return n
	}
	return 0
}

// control returns the length of a control sequence whose parameters begin at n.
func control(s string, n int) int {
	start := n
	for n < len(s) && n < longest && ' ' <= s[n] && s[n] <= '?' {
		n++
	}
	if n < len(s) && '@' <= s[n] && s[n] <= '~' {
		return n + 1
	}
	return start
}

// text returns the length of a sequence that BEL or ST ends, such as one that sets a window's
// title. Another control character ends it too, and is not part of it.
func text(s string, n int) int {
	start := n
	for n < len(s) && n < longest {
		switch {
		case s[n] == '\a':
			return n + 1
		case strings.HasPrefix(s[n:], "\x1b\\"), strings.HasPrefix(s[n:], "\u009c"):
			return n + 2
		}
		r, size := utf8.DecodeRuneInString(s[n:])
		if unicode.IsControl(r) {
			return start
		}
		n += size
	}
	return start
}
