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

// shortestSecret is the length below which a value is too common to take out of
// every text: what is that short is no secret.
const shortestSecret = 4

const placeholder = "[redacted]"

// newRedactor returns what adds to the secrets that are known, and what takes those
// out of a text, and makes it printable. A text that was cut may end with the beginning
// of one.
func newRedactor() (hide func(...string), redact func(text string, cut bool) string) {
	var (
		mu     sync.RWMutex
		known  []string // the longest first: one may begin another
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
		// Again after what is not printable, which may stand within a secret.
		return remove.Replace(printable.Text(remove.Replace(text)))
	}
	return hide, redact
}

// begun returns how much of one of the secrets a text ends with.
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

// forms returns how a secret looks in what APIs send and say: as it is, in JSON, in
// a URL, and line by line.
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

// fieldPattern matches fields of those names whose values are strings or numbers, the last
// of which may be cut, also where the JSON is itself within a string.
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

// secretsIn returns the values that a pattern's fields have in an answer, which need
// be neither whole nor JSON.
func secretsIn(body []byte, fields *regexp.Regexp) []string {
	if fields == nil {
		return nil
	}
	var found []string
	for _, m := range fields.FindAllSubmatch(body, -1) {
		value := string(m[1]) + string(m[2])
		inner, _, _ := strings.Cut(value, `\"`) // within a string it ends there
		found = append(found, value, inner)
		var plain string
		if json.Unmarshal([]byte(`"`+value+`"`), &plain) == nil {
			found = append(found, plain)
		}
	}
	return found
}
