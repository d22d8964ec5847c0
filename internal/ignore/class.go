package ignore

import (
	"strings"
	"unicode/utf8"
)

// class translates the bracket expression that starts at pattern[i], and returns its end. The
// result lists all characters of the set, so differences between the two syntaxes do not matter.
func class(pattern string, i int) (string, int, bool) {
	i++ // [
	var set [256]bool
	negated := i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^')
	if negated {
		i++
	}
	for first := true; ; first = false {
		if i >= len(pattern) {
			return "", 0, false // never closed: git matches nothing
		}
		if pattern[i] == ']' && !first {
			break
		}
		if name, next, ok := named(pattern, i); ok {
			if !addNamed(&set, name) {
				return "", 0, false
			}
			i = next
			continue
		}
		low, next, ok := member(pattern, i)
		if !ok {
			return "", 0, false
		}
		set[low] = true // even if its range is backwards
		high := low
		if next+1 < len(pattern) && pattern[next] == '-' && pattern[next+1] != ']' {
			if high, next, ok = member(pattern, next+1); !ok {
				return "", 0, false
			}
		}
		for c := int(low); c <= int(high); c++ {
			set[c] = true
		}
		i = next
	}
	return spell(&set, negated), i + 1, true
}

// member reads one character of a class.
func member(pattern string, i int) (rune, int, bool) {
	if pattern[i] == '\\' {
		i++
	}
	if i >= len(pattern) {
		return 0, 0, false
	}
	r, n := utf8.DecodeRuneInString(pattern[i:])
	return r, i + n, true
}

// named reads "[:alpha:]" inside a class.
func named(pattern string, i int) (string, int, bool) {
	rest, ok := strings.CutPrefix(pattern[i:], "[:")
	if !ok {
		return "", 0, false
	}
	end := strings.IndexByte(rest, ']')
	if end < 1 || rest[end-1] != ':' {
		return "", 0, false
	}
	return rest[:end-1], i + 2 + end + 1, true
}

// addNamed adds the ASCII characters of a POSIX class, and reports whether
// there is such a class.
func addNamed(set *[256]bool, name string) bool {
	digit := func(c byte) bool { return '0' <= c && c <= '9' }
	lower := func(c byte) bool { return 'a' <= c && c <= 'z' }
	upper := func(c byte) bool { return 'A' <= c && c <= 'Z' }
	alpha := func(c byte) bool { return lower(c) || upper(c) }
	graph := func(c byte) bool { return '!' <= c && c <= '~' }
	in, ok := map[string]func(byte) bool{
		"digit": digit, "lower": lower, "upper": upper, "alpha": alpha, "graph": graph,
		"alnum":  func(c byte) bool { return alpha(c) || digit(c) },
		"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
		"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
		"print":  func(c byte) bool { return c == ' ' || graph(c) },
		"punct":  func(c byte) bool { return graph(c) && !alpha(c) && !digit(c) },
		"space":  func(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' },
		"xdigit": func(c byte) bool { return digit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' },
	}[name]
	if !ok {
		return false
	}
	for c := range byte(utf8.RuneSelf) {
		set[c] = set[c] || in(c)
	}
	return true
}

// spell writes a set as a doublestar class, with every character escaped. No class matches a slash.
func spell(set *[256]bool, negated bool) string {
	for c := range set {
		set[c] = set[c] != negated
	}
	set['/'] = false
	var b strings.Builder
	b.WriteByte('[')
	for low := 0; low < len(set); low++ {
		if !set[low] {
			continue
		}
		high := low
		for high+1 < len(set) && set[high+1] {
			high++
		}
		b.WriteByte('\\')
		b.WriteRune(rune(low))
		if high > low {
			b.WriteString(`-\`)
			b.WriteRune(rune(high))
		}
		low = high
	}
	if b.Len() == 1 {
		// The set is empty. No name contains a NUL.
		b.WriteString("\x00")
	}
	b.WriteByte(']')
	return b.String()
}
