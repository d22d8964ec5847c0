//go:build unix

package training

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/gang"
	"github.com/gputrain/gputrain/internal/launcher"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/preflight"
)

// An endlessNode prints without end, on both streams, whatever it is to run. It stops at mostSaid.
type endlessNode struct {
	*cutNode
	said atomic.Int64
}

const mostSaid = 128 << 20

func (n *endlessNode) Commands() node.Commands { return endlessCommands{n: n} }

type endlessCommands struct {
	node.Commands
	n *endlessNode
}

func (c endlessCommands) ExecMoving(_ context.Context, _ string, _ io.Reader, stdout, stderr io.Writer) error {
	for part := make([]byte, 32<<10); c.n.said.Add(int64(len(part))) < mostSaid; {
		for _, w := range []io.Writer{stdout, stderr} {
			if w != nil {
				if _, err := w.Write(part); err != nil {
					return fmt.Errorf("stdout of a remote command: %w", err)
				}
			}
		}
	}
	return errors.New("it has said everything")
}

// Whatever of a gang's commands a node answers without end, what is kept of it is bounded.
func TestCommandsWithoutEnd(t *testing.T) {
	for name, ask := range map[string]func(n *endlessNode) error{
		"its port": func(n *endlessNode) error {
			_, err := launcher.FreePort(t.Context(), repeated{n}, "t", 1, 0)
			return err
		},
		"its port, of a node without cuts": func(n *endlessNode) error {
			_, err := launcher.FreePort(t.Context(), n.Commands(), "t", 1, 0)
			return err
		},
		"the end of an attempt": func(n *endlessNode) error {
			_, err := shell(t.Context(), n, killMarked)
			return err
		},
		"a command after a cut": func(n *endlessNode) error {
			var out bounded.Buffer
			return repeated{n}.ExecMoving(t.Context(), "say", nil, &out, nil)
		},
		"the preflight": func(n *endlessNode) error {
			_, problems := preflight.Check(t.Context(), []preflight.Node{{Addr: "127.0.0.1", Commands: repeated{n}}, {Rank: 1, Addr: "127.0.0.1", Commands: n.Commands()}}, preflight.Options{Port: 1})
			for _, p := range problems {
				if errors.Is(p.Err, bounded.ErrTooLong) {
					return p.Err
				}
			}
			return fmt.Errorf("the problems are %v", problems)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := &endlessNode{cutNode: &cutNode{ctx: t.Context()}}
			began := time.Now()
			if err := ask(n); !errors.Is(err, bounded.ErrTooLong) {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			if n.said.Load() >= mostSaid {
				t.Error("all of it was taken")
			}
		})
	}
}

var _ gang.Node = (*endlessNode)(nil)
