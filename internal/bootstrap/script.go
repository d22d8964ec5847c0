package bootstrap

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/supervisor"
)

//go:embed scripts/*.sh
var scripts embed.FS

// prelude begins every script. The output of the script and its children is one stream, in order; the script's answer
// to this program goes to descriptor 3.
const prelude = "set -e\nexec 3>&1 1>&2\n"

// answerLimit bounds an answer: a word and a path.
const answerLimit = 8 << 10

// script runs one of the embedded scripts as a phase. It reports whether the script found the work done before.
func (b *bootstrapper) script(ctx context.Context, p Phase, name string, env map[string]string, args ...string) (bool, *Error) {
	answer, err := b.ask(ctx, p, name, env, args...)
	return answer == "cached" || strings.HasPrefix(answer, "cached "), err
}

// ask runs one of the embedded scripts and returns its answer.
func (b *bootstrapper) ask(ctx context.Context, p Phase, name string, env map[string]string, args ...string) (string, *Error) {
	text, err := scripts.ReadFile("scripts/" + name)
	if err != nil {
		return "", failure(p, err)
	}
	var (
		answer limited
		last   tail
	)
	spec := supervisor.Spec{
		ID:      taskID(p, b.attempt),
		Args:    append([]string{"sh", "-c", prelude + string(text), name}, args...),
		Env:     env,
		Timeout: b.img.timeout(),
	}
	exit, err := b.node.Run(ctx, spec, supervisor.Sinks{
		Stdout: &answer,
		Stderr: io.MultiWriter(&last, b.output(p.Name)),
		Live:   true,
	})
	var failed *Error
	switch {
	case errors.Is(err, supervisor.ErrOverdue):
		failed = failure(p, fmt.Errorf("%w, and %w", late(spec.Timeout), err))
	case err != nil:
		failed = failure(p, err)
	case exit.Cause == supervisor.Cancelled && ctx.Err() != nil:
		failed = failure(p, ctx.Err())
	case exit.Cause != supervisor.Exited || exit.Code != 0:
		failed = ended(p, exit, spec.Timeout)
	default:
		return strings.TrimSuffix(answer.String(), "\n"), nil
	}
	failed.Tail = last.Lines()
	return "", failed
}

// taskID returns the phase's attempt ID on the node: "boot-setup-1-3-k7f2...".
func taskID(p Phase, attempt string) string {
	return "boot-" + strings.NewReplacer(" ", "-", "/", "-").Replace(p.Name) + "-" + attempt
}

// newAttempt returns a name that no other run has.
func newAttempt() string { return strings.ToLower(rand.Text()) }

var errAnswer = errors.New("the node's answer is not that of the phase's script; is sh there a POSIX shell?")

// limited keeps the first answerLimit bytes.
type limited struct {
	mu  sync.Mutex
	buf []byte
}

func (l *limited) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, p[:min(len(p), answerLimit-len(l.buf))]...)
	return len(p), nil
}

func (l *limited) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.buf)
}
