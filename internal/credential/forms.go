package credential

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"iter"
	"net/url"
	"strconv"
	"strings"
)

// shortestInside is the least length of a secret that is also found within what was encoded together with it: of a shorter one too
// little would be left to tell it from other texts.
const shortestInside = 8

// Forms yields a secret, each of its lines, and both as JSON, HTML, Go, addresses, hexadecimal digits and base64 have them.
func Forms(secret string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, s := range append(strings.FieldsFunc(secret, func(r rune) bool { return r == '\n' || r == '\r' }), secret) {
			once := inJSON(s, false)
			path := url.PathEscape(s)
			for _, form := range []string{
				s, strings.TrimSpace(s), once, inJSON(s, true), inJSON(once, false), html.EscapeString(s), html.EscapeString(once), strings.Trim(strconv.Quote(s), `"`),
				path, url.QueryEscape(s), lowerEscapes(path), hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s))),
			} {
				if !yield(form) {
					return
				}
			}
			for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
				whole := enc.EncodeToString([]byte(s))
				if !yield(whole) || !yield(strings.TrimRight(whole, "=")) {
					return
				}
				// Within a longer text, as "user:secret", it begins at one of three places of base64's groups. What its first and last
				// characters share with its neighbours is left out.
				for before := range 3 {
					if len(s) < shortestInside {
						break
					}
					text := enc.WithPadding(base64.NoPadding).EncodeToString(append(make([]byte, before), s...))
					if !yield(text[(before*8+5)/6 : (before+len(s))*8/6]) {
						return
					}
				}
			}
		}
	}
}

// inJSON returns what JSON has between the quotes of a text.
func inJSON(s string, escapeHTML bool) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(escapeHTML)
	_ = enc.Encode(s) // a text can be encoded, and a buffer be written to
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`)
}

// lowerEscapes returns an escaped text with its hexadecimal digits in lower case.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// Known returns the secrets among the variables of an environment: the values of those that are credentials by their names, and the
// passwords in addresses. Values of less than six bytes are left out: they would be found in other words.
func Known(environ []string) *Set {
	known := &Set{}
	learn := func(secret string) {
		if len(secret) >= shortestValue && len(secret) <= longestSecret/4 {
			known.Learn(secret)
		}
	}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if IsNamed(name, value) {
			for line := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '\n' || r == '\r' }) {
				learn(strings.TrimSpace(line))
			}
			learn(value)
		}
		for _, m := range find(value, &Set{}) {
			learn(value[m.begin:m.end])
			if plain, err := url.PathUnescape(value[m.begin:m.end]); err == nil {
				learn(plain)
			}
		}
	}
	return known
}
