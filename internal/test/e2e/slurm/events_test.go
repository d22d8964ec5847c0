//go:build unix

package slurm

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/gputrain/gputrain"
)

// events are a pool's events, as text.
type events struct {
	mu    sync.Mutex
	lines []string
}

func (e *events) add(ev gputrain.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines = append(e.lines, fmt.Sprintf("%s %s node=%d %v %v", ev.Kind, ev.State, ev.Node, ev.Elapsed, ev.Err))
}

func (e *events) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.lines, "\n")
}

// has reports whether a line matches.
func (e *events) has(pattern string) bool {
	return regexp.MustCompile("(?m)" + pattern).MatchString(e.String())
}
