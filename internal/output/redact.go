package output

import (
	"sync"

	"github.com/gputrain/gputrain/internal/credential"
	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Redactor removes known secrets from texts. Its zero value knows none. The time that it takes depends on the length
// of the text, hardly on the number of secrets, and so does the time to learn one. It can be used concurrently.
type Redactor struct {
	mu    sync.RWMutex
	known credential.Set
}

// Learn adds secrets, by any names, in all forms of [credential.Set]. Each line of a secret of several lines is a secret too, since
// output is printed line by line. Secrets of less than four bytes are not removed from output.
func (r *Redactor) Learn(secrets map[string]driver.Secret) {
	if len(secrets) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range secrets {
		r.known.Learn(string(s))
	}
}

// Text returns the printable part of a text without secrets, including those that had a terminal's sequence inside.
func (r *Redactor) Text(s string) string { return r.raw(printable.Text(r.raw(s))) }

// Error returns an error whose text is without secrets, and which wraps err.
func (r *Redactor) Error(err error) error { return Reword(err, r.Text(err.Error())) }

// line is Text for one line, without its end.
func (r *Redactor) line(s string) string { return r.raw(printable.Line(r.raw(s))) }

// raw returns s without secrets, and otherwise unchanged.
func (r *Redactor) raw(s string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.known.Remove(s)
}

// begun returns how many bytes at a text's end may begin a secret whose rest has not come.
func (r *Redactor) begun(s string) int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.known.Begun(s)
}
