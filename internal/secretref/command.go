package secretref

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	// Processes that a command has left behind may hold its output open for pipeDelay.
	pipeDelay = time.Second
	// At most maxStderr bytes of a command's stderr are read, and at most maxComplaint of them are
	// in an error.
	maxStderr    = 16 << 10
	maxComplaint = 1 << 10
)

// fromCommand returns what a command prints. When it returns, no process of the command's process
// group is left.
func fromCommand(ctx context.Context, command string, limit time.Duration) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the command has not ended in %v", limit))
	defer stop()

	stdout := &bounded{most: maxSize, over: func() { cancel(errTooLarge) }}
	stderr := &bounded{most: maxStderr, over: func() {}}
	cmd := shell(ctx, command)
	cmd.Stdout, cmd.Stderr = stdout, stderr // its stdin is empty
	cmd.WaitDelay = pipeDelay
	err := cmd.Run()
	endGroup(cmd)
	switch {
	case stdout.cut:
		return "", errTooLarge
	case err != nil && ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay):
		return "", errors.New("the command has ended, but a process that it started still holds its output open")
	case err != nil:
		return "", fmt.Errorf("%w%s", err, complaint(stderr, string(stdout.text), command))
	}
	return line(stdout.text), nil
}

// A bounded keeps the first bytes that are written to it.
type bounded struct {
	text []byte
	most int
	over func()
	cut  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := b.most - len(b.text)
	b.text = append(b.text, p[:min(room, len(p))]...)
	if len(p) > room {
		b.cut = true
		b.over()
	}
	return len(p), nil
}

// complaint returns what a command has written to stderr, without its stdout and its command line,
// which may be repeated there.
func complaint(stderr *bounded, stdout, command string) string {
	text := string(stderr.text)
	if stderr.cut { // the last line may contain half of a secret
		text = text[:strings.LastIndexByte(text, '\n')+1]
	}
	text = strings.TrimSpace(without(text, append(lines(stdout), commandParts(command)...)))
	if text == "" {
		return ""
	}
	text = text[max(0, len(text)-maxComplaint):]
	return ": " + strings.ToValidUTF8(text, "")
}

// Lines shorter than shortestSecret are too common to remove from a text. Arguments shorter than
// shortestArgument are options or verbs.
const shortestSecret, shortestArgument = 4, 8

// lines returns a text and each of its lines.
func lines(text string) []string {
	parts := []string{strings.TrimSpace(text)}
	for l := range strings.Lines(text) {
		parts = append(parts, strings.TrimSpace(l))
	}
	return parts
}

// commandParts returns the parts of a command line that a shell may repeat, and its arguments.
func commandParts(command string) []string {
	parts := lines(command)
	words := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t\r\n'\"`()<>|;&", r) })
	for i, w := range words {
		if i > 0 && len(w) >= shortestArgument {
			parts = append(parts, w)
		}
	}
	return parts
}

// without replaces parts of a text, the longest first, because one part may begin with another.
func without(text string, parts []string) string {
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, p := range parts {
		if len(p) >= shortestSecret {
			pairs = append(pairs, p, "[redacted]")
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
