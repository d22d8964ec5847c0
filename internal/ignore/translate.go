package ignore

import "strings"

// translate converts a pattern from git's syntax to doublestar's, and reports whether it can match
// at all. An anchored pattern is matched against whole paths. The two syntaxes differ: braces have
// no meaning in git; git has classes such as [[:digit:]], and a "]" that comes first in a class is
// literal; "**" is special only as a whole element; and "a/**" does not match a itself.
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

// stars replaces an element of two or more stars by "**" if the pattern is anchored, and every
// other run of stars by one star.
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

// escaped reports whether a backslash escapes the byte at i.
func escaped(s string, i int) bool {
	n := 0
	for i-n > 0 && s[i-n-1] == '\\' {
		n++
	}
	return n%2 == 1
}
