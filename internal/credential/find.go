package credential

import (
	"cmp"
	"slices"
	"strings"
)

const (
	// shortestValue is the least length of a secret beside a name, and of one of an environment.
	shortestValue = 6
	// mostHarmless is the greatest length of a value that can be harmless, such as a path.
	mostHarmless = 512
)

// A match is a secret from begin to end, which is known by what is before it, from from on. If begin is end, there is nothing to
// replace, but the text from from to end has to stay together.
type match struct{ from, begin, end int }

// find returns the secrets in a text, by their beginnings, private keys aside.
func find(s string, known *Set) (found []match) {
	skip := 0 // anchors within a long secret are of no interest
	for i := 0; i+1 < len(s); i++ {
		if n := known.at(s[i:]); n > 0 {
			found = append(found, match{i, i, i + n})
		}
		if i < skip {
			continue
		}
		for _, a := range anchorsAt[pair(s[i], s[i+1])] {
			if len(s)-i < len(a.word) || !strings.EqualFold(s[i:i+len(a.word)], a.word) {
				continue
			}
			if m, ok := a.find(s, i, i+len(a.word)); ok && m.begin < m.end {
				found = append(found, m)
				if m.end-m.begin > mostHarmless {
					skip = m.end
				}
			}
		}
	}
	return sorted(found)
}

// IsIn reports whether a text has the form of a credential in it.
func IsIn(text string) bool { return len(find(text, &Set{})) > 0 }

func sorted(found []match) []match {
	slices.SortFunc(found, func(a, b match) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(b.end, a.end)) })
	return found
}

// An anchor is a word, in small letters, beside which secrets are. find looks at one place of it, from begin to end.
type anchor struct {
	word string
	find func(s string, begin, end int) (match, bool)
}

// anchorsAt has the anchors by their first two bytes.
var anchorsAt = func() (at [1 << 16][]anchor) {
	for _, a := range slices.Concat(anchors(), tokens()) {
		if len(a.word) == 1 {
			for second := range 1 << 8 {
				p := pair(a.word[0], byte(second))
				if lower(byte(second)) == byte(second) {
					at[p] = append(at[p], a)
				}
			}
			continue
		}
		p := pair(a.word[0], a.word[1])
		at[p] = append(at[p], a)
	}
	return at
}()

// pair is a number for two bytes, whose letters may be capital ones.
func pair(a, b byte) uint16 { return uint16(lower(a))<<8 | uint16(lower(b)) }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= lower(c) && lower(c) <= 'z' }

func isAlnum(c byte) bool { return isDigit(c) || isLetter(c) }

func isWord(c byte) bool { return c == '_' || c == '-' || isAlnum(c) }

func isHex(c byte) bool { return isDigit(c) || 'a' <= lower(c) && lower(c) <= 'f' }

func isBase64(c byte) bool { return c == '+' || c == '/' || c == '=' || isAlnum(c) }

// isValue reports whether a byte can be part of a secret that is written without quotes.
func isValue(c byte) bool { return c > ' ' && strings.IndexByte("\"'<>&\\,;`", c) < 0 }

// run returns the end of the bytes of a kind that begin at a place, not further than longestSecret.
func run(s string, at int, is func(byte) bool) int {
	for end := min(len(s), at+longestSecret); at < end && is(s[at]); {
		at++
	}
	return at
}

// isRandom reports whether a text has at least so many characters, and letters and digits in it, as hardly a word has.
func isRandom(s string, least int) bool {
	return len(s) >= least && strings.ContainsAny(s, "0123456789") && strings.ContainsFunc(s, func(r rune) bool { return r < 0x80 && isLetter(byte(r)) }) && !strings.Contains(s, "/")
}

// run0 returns the beginning of the word that a place is in.
func run0(s string, at int) int {
	for least := at - 128; at > 0 && at > least && isWord(s[at-1]); {
		at--
	}
	return at
}

// ampersand is how Go's JSON has one.
const ampersand = `\u0026`

// quotes are how texts have quotes, those first that others end with.
var quotes = []string{`\\\"`, `\"`, `\'`, "&#34;", "&#39;", "&quot;", `"`, `'`, "`"}

func quoteAt(s string, at int) string {
	for _, q := range quotes {
		if strings.HasPrefix(s[at:], q) {
			return q
		}
	}
	return ""
}

func quoteBefore(s string, at int) string {
	for _, q := range quotes {
		if strings.HasSuffix(s[:at], q) {
			return q
		}
	}
	return ""
}

// operator returns where the value of a name begins that ends at a place, and with what it is quoted. It reports false if nothing
// assigns it.
func operator(s string, end int) (at int, quote string, ok bool) {
	at = end
	for range 3 { // a quote, a bracket, spaces
		if q := quoteAt(s, min(at, len(s))); q != "" {
			at += len(q)
		}
		if at < len(s) && s[at] == ']' {
			at++
		}
	}
	at = spaces(s, at)
	begun := at
	for _, op := range []string{":=", "=>", "=&gt;", `=\u003e`, "==", "=", ":", ">", "&gt;", `\u003e`, "%3d", "%3D"} {
		if strings.HasPrefix(s[at:], op) {
			at += len(op)
			break
		}
	}
	if at == begun {
		return at, "", false
	}
	at = spaces(s, at)
	if at+1 < len(s) && (s[at] == 'b' || s[at] == 'r' || s[at] == 'f') && quoteAt(s, at+1) != "" { // as Python has it
		at++
	}
	quote = quoteAt(s, at)
	return at + len(quote), quote, true
}

// spaces returns the end of a few spaces.
func spaces(s string, at int) int {
	return min(run(s, at, func(c byte) bool { return c == ' ' || c == '\t' }), at+16)
}

// valueEnd returns the end of the value that begins at a place.
func valueEnd(s string, at int, quote string, inQuery bool) int {
	if quote != "" {
		for i := at; i < len(s) && i < at+longestSecret/4 && s[i] != '\n'; i++ {
			if strings.HasPrefix(s[i:], quote) && s[i-1] != '\\' {
				return i
			}
		}
	}
	end := min(len(s), at+longestSecret)
	for i := at; i < end; i++ {
		rest := s[i+1:]
		switch c := s[i]; {
		case c <= ' ', strings.IndexByte("\"'<>`", c) >= 0, c == '#' && inQuery:
			return i
		case strings.HasPrefix(s[i:], ampersand) && !inQuery:
			i += len(ampersand) - 1
		case c == '\\':
			if rest != "" && strings.IndexByte(`nrtu"'`, rest[0]) >= 0 {
				return i
			}
			i++ // of two
		case c == '&':
			if inQuery || quoteAt(s, i) != "" || strings.HasPrefix(rest, "lt;") || strings.HasPrefix(rest, "gt;") {
				return i
			}
		case c == ',', c == ';': // is part of it, unless something new begins
			next := run(rest, 0, isWord)
			if next == 0 && !isValueGlue(rest) || next < len(rest) && (rest[next] == '=' || rest[next] == ':') {
				return i
			}
		}
	}
	return end
}

// isValueGlue reports whether a value goes on after a comma that no word follows.
func isValueGlue(rest string) bool {
	return rest != "" && isValue(rest[0]) && strings.IndexByte("[]{}()", rest[0]) < 0
}
