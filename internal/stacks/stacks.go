// Package stacks shows where the processes of stalled work are.
package stacks

import (
	"context"
	_ "embed"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/supervisor"
)

const (
	// patience bounds how long a node has for it.
	patience = 10 * time.Second
	// mostBytes bounds what is kept.
	mostBytes = 64 << 10
)

// Commands runs commands on a node where its tasks run.
type Commands interface {
	Exec(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error
}

//go:embed dump.sh
var script string

// Dump returns the stacks of all of this user's processes on a node in whose environment there is match, such as
// "GPUTRAIN_ATTEMPT=3": by py-spy if that is installed and may look, otherwise what the kernel tells. It returns what came in ten
// seconds, which may be nothing. match is in an argument: it holds no secret.
func Dump(ctx context.Context, c Commands, match string) string {
	quoted, err := supervisor.Quote(match)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out answer
	_ = c.Exec(ctx, "sh -s -- "+quoted, strings.NewReader(script), &out, nil) // what has come is what there is
	return out.text()
}

// An answer is the beginning of what a command prints. It may be read while the command still prints.
type answer struct {
	mu   sync.Mutex
	b    []byte
	more bool
}

func (a *answer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	room := mostBytes - len(a.b)
	a.more = a.more || len(p) > room
	a.b = append(a.b, p[:min(len(p), room)]...)
	return len(p), nil
}

func (a *answer) text() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(a.b), ""))
	if a.more {
		text += " [cut]"
	}
	return text
}
