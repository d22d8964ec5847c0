package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/supervisor"
)

// A Step is a script that runs on a node as a phase, or as a part of one.
type Step struct {
	// Phase is the phase's name.
	Phase string
	// ID names the attempt on the node. It is never used again.
	ID string
	// Name is the script's name, its $0, and Text its text. Its output and that of its children is one stream, in
	// order; its answer to this program goes to descriptor 3.
	Name, Text string
	Args       []string
	// Stdin is read to its end before the step begins. Nil is empty.
	Stdin io.Reader
	// Env and Secrets are added to the environment, as by supervisor.Spec.
	Env, Secrets map[string]string
	// Redact removes secrets from a line of an Error's Tail. Nil changes nothing.
	Redact func(line string) string
	// Timeout bounds the step.
	Timeout time.Duration
	// Output receives the stream.
	Output io.Writer
}

// Run runs the step and returns the script's answer, without the newline at its end.
func (s Step) Run(ctx context.Context, node Runner) (string, *Error) {
	var answer limited
	last := tail{redact: s.Redact}
	exit, err := node.Run(ctx, supervisor.Spec{
		ID: s.ID, Args: append([]string{"sh", "-c", prelude + s.Text, s.Name}, s.Args...), Env: s.Env, Secrets: s.Secrets, Stdin: s.Stdin, Timeout: s.Timeout,
	}, supervisor.Sinks{Stdout: &answer, Stderr: io.MultiWriter(&last, s.Output), Live: true})
	failed := &Error{Phase: s.Phase, ExitCode: -1}
	switch {
	case errors.Is(err, supervisor.ErrOverdue):
		failed.Err = fmt.Errorf("%w, and %w", late(s.Timeout), err)
	case err != nil:
		failed.Err = err
	case exit.Cause == supervisor.Cancelled && ctx.Err() != nil:
		failed.Err = ctx.Err()
	case exit.Cause != supervisor.Exited || exit.Code != 0:
		failed = ended(Phase{Name: s.Phase}, exit, s.Timeout)
	default:
		return strings.TrimSuffix(answer.String(), "\n"), nil
	}
	failed.Tail = last.Lines()
	return "", failed
}
