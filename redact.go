package gputrain

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/printable"
)

// A redactor takes known secrets out of what is printed.
type redactor struct {
	mu     sync.RWMutex
	known  map[string]bool
	remove *strings.Replacer
}

// shortestSecret is the length below which a value is too common to take out
// of every line: what is that short is no secret.
const shortestSecret = 4

// learn adds the secrets of a task. A secret of several lines is also known
// line by line, as output is printed that way.
func (r *redactor) learn(secrets map[string]Secret) {
	if len(secrets) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := false
	for _, s := range secrets {
		for part := range strings.Lines(string(s)) {
			for _, v := range []string{string(s), strings.TrimRight(part, "\r\n")} {
				if len(v) >= shortestSecret && !r.known[v] {
					if r.known == nil {
						r.known = map[string]bool{}
					}
					r.known[v] = true
					fresh = true
				}
			}
		}
	}
	if !fresh {
		return
	}
	var pairs []string
	longest := func(a, b string) int { return len(b) - len(a) } // first: one may begin another
	for _, v := range slices.SortedFunc(maps.Keys(r.known), longest) {
		pairs = append(pairs, v, redacted)
	}
	r.remove = strings.NewReplacer(pairs...)
}

// text returns what can be seen of a text, without secrets: also without those that
// stood there with a terminal's sequence inside.
func (r *redactor) text(s string) string { return r.raw(printable.Text(r.raw(s))) }

// line is text for one line, without its end.
func (r *redactor) line(s string) string { return r.raw(printable.Line(r.raw(s))) }

// raw returns s without secrets, and else as it is.
func (r *redactor) raw(s string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.remove == nil {
		return s
	}
	return r.remove.Replace(s)
}
