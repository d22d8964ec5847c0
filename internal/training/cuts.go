package training

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/gang"
	"github.com/gputrain/gputrain/internal/launcher"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/internal/ssh"
)

// A cut connection is no failure of a node: what ran over it is run again. Nodes that stay away are given up elsewhere.

// upPause is the time between two looks whether a node can be reached.
const upPause = time.Second

// repeated are a node's commands that may run twice: one whose connection is cut runs again.
type repeated struct{ Node }

// ExecMoving runs a command without stdin.
func (r repeated) ExecMoving(ctx context.Context, command string, _ io.Reader, stdout, stderr io.Writer) error {
	for {
		out, complaint := bounded.Buffer{Most: launcher.MaxSockets}, bounded.Buffer{}
		err := r.Commands().ExecMoving(ctx, command, nil, &out, &complaint)
		if errors.Is(err, ssh.ErrDisconnected) && ctx.Err() == nil && !r.IsOver() {
			continue // it waits until the connection is back
		}
		if stdout != nil {
			_, _ = io.WriteString(stdout, out.String())
		}
		if stderr != nil {
			_, _ = io.WriteString(stderr, complaint.String())
		}
		return err
	}
}

// shell runs shell text on a node, and returns what it prints. The text may run twice.
func shell(ctx context.Context, n Node, text string) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.Context(), func() { cancel(context.Cause(n.Context())) })()
	var out, complaint bounded.Buffer
	if err := (repeated{n}).ExecMoving(ctx, text, nil, &out, &complaint); err != nil {
		return out.String(), fmt.Errorf("%w: %.2000s", err, strings.TrimSpace(complaint.String()+out.String()))
	}
	return out.String(), nil
}

// noticing are a node's commands that note if one was cut off.
type noticing struct {
	node.Commands
	cut *atomic.Bool
}

func (c noticing) ExecMoving(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	err := c.Commands.ExecMoving(ctx, command, stdin, stdout, stderr)
	if errors.Is(err, ssh.ErrDisconnected) {
		c.cut.Store(true)
	}
	return err
}

// heard waits until all nodes of an attempt can be reached. It returns false if one is lost, or ctx ends, before.
func heard(ctx context.Context, e *gang.Attempt) bool {
	for ctx.Err() == nil && len(gang.Lost(e)) == 0 {
		up := true
		for _, n := range e.Nodes {
			up = up && n.IsUp()
		}
		if up {
			return true
		}
		retry.Sleep(ctx, upPause)
	}
	return false
}
