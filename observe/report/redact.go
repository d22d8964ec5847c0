package report

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net/url"
	"slices"
	"strings"
)

const (
	redacted = "[redacted]"
	// A secret may be so long, with its name, to be found across two calls of Write. Of a longer one all is removed too.
	longestSecret = 8 << 10
	// shortestSecret is the least length of a known secret. A shorter one would be found in other words.
	shortestSecret = 6
	// A private key ends so many bytes after its first line, even without a last line.
	longestKey = 64 << 10
)

// secretSuffixes are the ends of the names of environment variables that are taken for secrets.
var secretSuffixes = []string{"_KEY", "_TOKEN", "_SECRET", "_PASSWORD"}

// knownSecrets returns the values of an environment that are secrets by their names, in each form in which a file of a bundle
// may have them.
func knownSecrets(environ []string) (known [][]byte) {
	forms := map[string]bool{}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if !slices.ContainsFunc(secretSuffixes, func(s string) bool { return strings.HasSuffix(strings.ToUpper(name), s) }) {
			continue
		}
		for _, part := range append(strings.FieldsFunc(value, func(r rune) bool { return r == '\n' || r == '\r' }), value) {
			part = strings.TrimSpace(part)
			if len(part) < shortestSecret || len(part) > longestSecret/4 {
				continue
			}
			var quoted bytes.Buffer
			enc := json.NewEncoder(&quoted)
			enc.SetEscapeHTML(false)
			enc.Encode(part) // a string can be encoded, and a buffer be written to
			forms[part] = true
			forms[strings.Trim(strings.TrimSpace(quoted.String()), `"`)] = true
			forms[html.EscapeString(part)] = true
			forms[url.QueryEscape(part)] = true
			forms[base64.StdEncoding.EncodeToString([]byte(part))] = true
		}
	}
	for form := range forms {
		if len(form) >= shortestSecret {
			known = append(known, []byte(form))
		}
	}
	slices.SortFunc(known, func(a, b []byte) int { return len(b) - len(a) })
	return known
}

// A redactor is a writer that replaces secrets by "[redacted]": those that are known, and what has the form of one, also if it
// comes in several calls. Close writes the rest.
type redactor struct {
	to    io.Writer
	known [][]byte
	buf   []byte
	// key is true within a private key, and keyLeft is how many bytes it can still have.
	key     bool
	keyLeft int
	// long is true after a secret that was longer than longestSecret, until its end.
	long bool
}

func (r *redactor) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		take := min(len(p), 64<<10)
		r.buf, p = append(r.buf, p[:take]...), p[take:]
		if len(r.buf) >= 4*longestSecret {
			if err := r.emit(len(r.buf) - longestSecret); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// Close writes what is left. It does not close the writer below.
func (r *redactor) Close() error { return r.emit(len(r.buf)) }

// emit writes the first limit bytes of the buffer, and all of a secret that begins in them.
func (r *redactor) emit(limit int) error {
	if r.long {
		end := 0
		for end < len(r.buf) && isValue(r.buf[end]) {
			end++
		}
		r.buf = r.buf[end:]
		if limit = max(limit-end, 0); len(r.buf) == 0 {
			return nil
		}
		r.long = false
	}
	found := r.scan(r.buf)
	for changed := true; changed; {
		changed = false
		for _, f := range found {
			if f.from < limit && f.end > limit {
				limit, changed = f.end, true
			}
		}
	}
	var out []byte
	at := 0
	for _, f := range found {
		if f.begin == f.end || f.begin >= limit || f.end <= at {
			continue
		}
		out = append(out, r.buf[at:max(f.begin, at)]...)
		out = append(out, redacted...)
		at = f.end
		r.long = f.end == len(r.buf) && f.end-f.from >= longestSecret
	}
	out = append(out, r.buf[at:max(limit, at)]...)
	r.pass(r.buf[:max(limit, at)])
	r.buf = append(r.buf[:0], r.buf[max(limit, at):]...)
	_, err := r.to.Write(out)
	return err
}

// pass notes the beginnings and ends of private keys in bytes that leave the buffer.
func (r *redactor) pass(p []byte) {
	for _, m := range keyMarks(p) {
		r.key, r.keyLeft = m.begins, longestKey+m.end
	}
	r.keyLeft -= len(p)
	if r.keyLeft <= 0 {
		r.key = false
	}
}
