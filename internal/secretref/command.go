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
	// pipeDelay is how long what a command has left behind may hold its output.
	pipeDelay = time.Second
	// maxStderr is how much of what a command complains about is read, and
	// maxComplaint how much of that an error shows.
	maxStderr    = 16 << 10
	maxComplaint = 1 << 10
)

// fromCommand returns what a command prints. Nothing of the command's process group
// is left when it returns.
func fromCommand(ctx context.Context, command string, limit time.Duration) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it has not ended in %v", limit))
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
		return "", errors.New("it has ended, and what it has started still holds its output open")
	case err != nil:
		return "", fmt.Errorf("%w%s", err, complaint(stderr, string(stdout.text), command))
	}
	return line(stdout.text), nil
}

// A bounded keeps the first bytes of what is written to it.
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

// complaint is what a command has said on stderr, without what it has said on stdout
// and without its own command line, either of which may be there too.
func complaint(stderr *bounded, stdout, command string) string {
	text := string(stderr.text)
	if stderr.cut { // the last line may have the first half of a secret
		text = text[:strings.LastIndexByte(text, '\n')+1]
	}
	text = strings.TrimSpace(without(text, append(lines(stdout), commandParts(command)...)))
	if text == "" {
		return ""
	}
	text = text[max(0, len(text)-maxComplaint):]
	return ": " + strings.ToValidUTF8(text, "")
}

// shortestSecret is the length below which a line is too common to take out of a text,
// and shortestArgument that of an argument: what is shorter is an option or a verb.
const shortestSecret, shortestArgument = 4, 8

// lines returns a text and each of its lines.
func lines(text string) []string {
	parts := []string{strings.TrimSpace(text)}
	for l := range strings.Lines(text) {
		parts = append(parts, strings.TrimSpace(l))
	}
	return parts
}

// commandParts returns what a shell may repeat of a command line, and the arguments.
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

// without replaces parts of a text, the longest first: one may begin another.
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
