package console

import (
	"fmt"
	"strings"
	"time"
)

// mostLines is how many lines of the kinds that can come by the thousand are written in a second. Others are counted.
const mostLines = 20

// A limiter bounds how many lines are written. The zero value is ready.
type limiter struct {
	since  time.Time
	passed int
	words  []string // of what was left out, in order
	counts map[string]int
}

// allow reports whether a line may be written, and returns what says how many were not before it. many says what several such
// lines are about; without it a line is always written.
func (l *limiter) allow(many string, at time.Time) (skipped string, ok bool) {
	skipped = l.expire(at)
	if many == "" {
		return skipped, true
	}
	if l.since.IsZero() || at.Sub(l.since) >= time.Second || at.Before(l.since) {
		l.since, l.passed = at, 0
	}
	if l.passed < mostLines {
		l.passed++
		return skipped, true
	}
	if l.counts == nil {
		l.counts = map[string]int{}
	}
	if l.counts[many] == 0 {
		l.words = append(l.words, many)
	}
	l.counts[many]++
	return "", false
}

// expire returns what was left out, once that is a second ago.
func (l *limiter) expire(at time.Time) string {
	if len(l.words) == 0 || at.Sub(l.since) < time.Second {
		return ""
	}
	return l.flush()
}

// flush returns what was left out, or "", and begins anew.
func (l *limiter) flush() string {
	if len(l.words) == 0 {
		return ""
	}
	var texts []string
	for _, w := range l.words {
		texts = append(texts, fmt.Sprintf("%d more %s", l.counts[w], w))
	}
	*l = limiter{}
	return "and " + strings.Join(texts, ", ")
}
