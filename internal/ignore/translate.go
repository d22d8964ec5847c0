package ignore

import "strings"

// translate turns git's pattern syntax into doublestar's, and reports whether
// the pattern can match at all. An anchored one is matched against whole paths. The two differ in these: braces mean nothing
// to git; it knows classes such as [[:digit:]] and takes "]" first in a class as
// itself; "**" counts only as a whole element; "a/**" does not match a itself.
func translate(pattern string, anchored bool) (string, bool) {
	var elements []string
	var b strings.Builder
	for i := 0; i < len(pattern); {
		switch c := pattern[i]; c {
		case '/':
			elements = append(elements, b.String())
			b.Reset()
			i++
		case '\\':
			if i+1 == len(pattern) {
				return "", false
			}
			b.WriteString(pattern[i : i+2])
			i += 2
		case '[':
			class, next, ok := class(pattern, i)
			if !ok {
				return "", false
			}
			b.WriteString(class)
			i = next
		case '{', '}':
			b.WriteByte('\\')
			b.WriteByte(c)
			i++
		default:
			b.WriteByte(c)
			i++
		}
	}
	elements = append(elements, b.String())
	for i, e := range elements {
		if e == "" {
			return "", false // no path has an empty element
		}
		elements[i] = stars(e, anchored)
	}
	if n := len(elements); n > 1 && elements[n-1] == "**" {
		elements = append(elements, "*")
	}
	return strings.Join(elements, "/"), true
}

// stars makes "**" of an element of two or more stars, where the pattern is
// anchored, and one star of every other run.
func stars(element string, anchored bool) string {
	if anchored && len(element) > 1 && strings.Trim(element, "*") == "" {
		return "**"
	}
	var b strings.Builder
	for i := 0; i < len(element); i++ {
		switch {
		case element[i] == '\\' && i+1 < len(element):
			b.WriteByte(element[i])
			i++
		case element[i] == '*' && i > 0 && element[i-1] == '*' && !escaped(element, i-1):
			continue
		}
		b.WriteByte(element[i])
	}
	return b.String()
}

// escaped reports whether a backslash takes the meaning from the byte at i.
func escaped(s string, i int) bool {
	n := 0
	for i-n > 0 && s[i-n-1] == '\\' {
		n++
	}
	return n%2 == 1
}
