package rest

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/printable"
)

// Values shorter than shortestSecret are too common to remove from every text, and too short to be secrets.
const shortestSecret = 4

const placeholder = "[redacted]"

// newRedactor returns hide, which adds known secrets, and redact, which removes them from a text and makes it
// printable. A text that was cut may end with the beginning of a secret.
func newRedactor() (hide func(...string), redact func(text string, cut bool) string) {
	var (
		mu     sync.RWMutex
		known  []string // the longest first: one may be the start of another
		remove = strings.NewReplacer()
	)
	hide = func(secrets ...string) {
		mu.Lock()
		defer mu.Unlock()
		fresh := false
		for _, s := range secrets {
			for _, form := range forms(s) {
				if len(form) >= shortestSecret && !slices.Contains(known, form) {
					known, fresh = append(known, form), true
				}
			}
		}
		if !fresh {
			return
		}
		slices.SortFunc(known, func(a, b string) int { return len(b) - len(a) })
		var pairs []string
		for _, s := range known {
			pairs = append(pairs, s, placeholder)
		}
		remove = strings.NewReplacer(pairs...)
	}
	redact = func(text string, cut bool) string {
		mu.RLock()
		defer mu.RUnlock()
		for cut && begun(text, known) > 0 {
			text = text[:len(text)-begun(text, known)]
		}
		// Again, since unprintable characters may have stood within a secret.
		return remove.Replace(printable.Text(remove.Replace(text)))
	}
	return hide, redact
}

// begun returns how many bytes at the end of a text are the beginning of a secret.
func begun(text string, secrets []string) int {
	most := 0
	for _, s := range secrets {
		for n := min(len(s)-1, len(text)); n > most; n-- {
			if strings.HasSuffix(text, s[:n]) {
				most = n
			}
		}
	}
	return most
}

// forms returns the forms of a secret in the texts of APIs: as it is, in JSON, in a URL, and line by line.
func forms(secret string) []string {
	all := []string{secret, url.QueryEscape(secret), url.PathEscape(secret)}
	if inJSON, err := json.Marshal(secret); err == nil {
		all = append(all, string(inJSON[1:len(inJSON)-1]))
	}
	for line := range strings.Lines(secret) {
		all = append(all, strings.TrimRight(line, "\r\n"))
	}
	return all
}

// fieldPattern matches fields of those names whose values are strings or numbers, even if the last one is cut, or the
// JSON is itself within a string.
func fieldPattern(names []string) *regexp.Regexp {
	if len(names) == 0 {
		return nil
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return regexp.MustCompile(`(?i)"(?:` + strings.Join(quoted, "|") + `)\\*"\s*:\s*(?:\\*"((?:[^"\\]|\\.)*)|(-?\d[\d.eE+-]*))`)
}

// secretsIn returns the values of a pattern's fields in an answer, which may be incomplete or no JSON.
func secretsIn(body []byte, fields *regexp.Regexp) []string {
	if fields == nil {
		return nil
	}
	var found []string
	for _, m := range fields.FindAllSubmatch(body, -1) {
		value := string(m[1]) + string(m[2])
		inner, _, _ := strings.Cut(value, `\"`) // it ends there if the JSON is within a string
		found = append(found, value, inner)
		var plain string
		if json.Unmarshal([]byte(`"`+value+`"`), &plain) == nil {
			found = append(found, plain)
		}
	}
	return found
}
