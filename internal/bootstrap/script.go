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
)

//go:embed scripts/*.sh
var scripts embed.FS

// prelude begins every script. The output of the script and its children is one stream, in order; the script's answer
// to this program goes to descriptor 3.
const prelude = "set -e\nexec 3>&1 1>&2\n"

// answerLimit bounds an answer: a word and a path.
const answerLimit = 8 << 10

// A call is one run of an embedded script.
type call struct {
	scripts []string // by name; those before the last define what it uses
	args    []string
	env     map[string]string
	stdin   io.Reader
}

// script runs a script as a phase. It reports whether the script found the work done before.
func (b *bootstrapper) script(ctx context.Context, p Phase, c call) (bool, *Error) {
	answer, err := b.ask(ctx, p, c)
	return answer == "cached", err
}

// ask runs a script and returns its answer.
func (b *bootstrapper) ask(ctx context.Context, p Phase, c call) (string, *Error) {
	text := ""
	for _, name := range c.scripts {
		part, err := scripts.ReadFile("scripts/" + name)
		if err != nil {
			return "", failure(p, err)
		}
		text += string(part)
	}
	b.asked++
	return Step{
		Phase: p.Name, ID: taskID(p, b.asked, b.attempt), Name: c.scripts[len(c.scripts)-1], Text: text, Args: c.args, Stdin: c.stdin,
		Env: c.env, Secrets: b.secrets, Redact: b.redact, Timeout: b.img.Timeout(), Output: b.output(p.Name),
	}.Run(ctx, b.node)
}

// taskID returns the attempt ID on the node of a run's number-th script: "boot-setup-1-3-4-k7f2...".
func taskID(p Phase, number int, attempt string) string {
	return fmt.Sprintf("boot-%s-%d-%s", strings.NewReplacer(" ", "-", "/", "-").Replace(p.Name), number, attempt)
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
