package slurm

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/hops"
	gossh "github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// absentPatience is how many seconds a login node may refuse the port, or be unknown, when it is first reached.
const absentPatience = 3

// A login is the connection to the login node: one for all commands and all forwards, through all hosts before it. It
// is reopened when it is cut.
type login struct{ *hops.Chain }

// shell returns what runs commands, and the user that they run as.
func (c Config) shell() (shell, string, error) {
	if c.Local {
		return newLocal()
	}
	all, err := c.Login.Route(c.Jump...)
	if err != nil {
		return nil, "", err
	}
	l := &login{hops.New(all, time.Duration(absentPatience)*cloud.Second)}
	return l, l.User(), nil
}

// Run runs shell text by a shell of its own, which reads it from stdin: no argument shows it.
func (l *login) Run(ctx context.Context, text string) (stdout, stderr string, err error) {
	client, err := l.Client(ctx)
	if err != nil {
		return "", "", &unsent{err}
	}
	var out, complaint output
	err = client.Exec(ctx, "exec sh", strings.NewReader(text), &out, &complaint)
	if errors.Is(err, gossh.ErrNoCommand) {
		return "", "", &unsent{err}
	}
	if _, ended := errors.AsType[*gossh.ExitError](err); ended {
		err = nil // whether all was run is read from the output
	}
	return out.text.String(), complaint.text.String(), err
}

// Close ends the connection. What ran over it ends.
func (l *login) Close() error {
	l.Chain.Close()
	return nil
}
