package rest

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/credential"
	"github.com/gputrain/gputrain/internal/printable"
)

// newRedactor returns hide, which adds known secrets, and redact, which removes them from a text and makes it
// printable. A text that was cut may end with the beginning of a secret.
func newRedactor() (hide func(...string), redact func(text string, cut bool) string) {
	var (
		mu    sync.RWMutex
		known credential.Set
	)
	hide = func(secrets ...string) {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range secrets {
			known.Learn(s)
		}
	}
	redact = func(text string, cut bool) string {
		mu.RLock()
		defer mu.RUnlock()
		for cut && known.Begun(text) > 0 {
			text = text[:len(text)-known.Begun(text)]
		}
		// Again, since unprintable characters may have stood within a secret.
		return known.Remove(printable.Text(known.Remove(text)))
	}
	return hide, redact
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
