//go:build unix

package training

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain/internal/gang"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/preflight"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/telemetry"
)

// A cutNode is this computer, over a connection that is cut while the first commands run.
type cutNode struct {
	Node
	rank int
	ctx  context.Context

	mu   sync.Mutex
	cuts int // that are still to come
	ran  int
}

func (n *cutNode) Name() string                            { return fmt.Sprint("n", n.rank) }
func (n *cutNode) Rank() int                               { return n.rank }
func (n *cutNode) Addr() string                            { return "127.0.0.1" }
func (n *cutNode) Network() string                         { return "" }
func (n *cutNode) Context() context.Context                { return n.ctx }
func (n *cutNode) IsUp() bool                              { return true }
func (n *cutNode) IsOver() bool                            { return false }
func (n *cutNode) Commands() node.Commands                 { return cutCommands{n: n} }
func (n *cutNode) Sampler() (telemetry.Commands, []string) { return nil, nil }

type cutCommands struct {
	node.Commands
	n *cutNode
}

func (c cutCommands) ExecMoving(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	c.n.mu.Lock()
	cut := c.n.cuts > 0
	c.n.cuts--
	c.n.ran++
	c.n.mu.Unlock()
	if cut {
		return fmt.Errorf("%w: reset", ssh.ErrDisconnected)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	return cmd.Run()
}

// cutAttempt returns an attempt of nodes whose connections are cut.
func cutAttempt(t *testing.T, cuts ...int) *gang.Attempt {
	e := &gang.Attempt{Number: 1}
	for rank, n := range cuts {
		e.Nodes = append(e.Nodes, &cutNode{rank: rank, ctx: t.Context(), cuts: n})
	}
	return e
}

// A node whose connection is cut while it is cleaned up, or checked, is not given up for that.
func TestCutsAreNoFailures(t *testing.T) {
	training := New(Config{PoolID: "cuts-" + strings.ToLower(t.Name()), ID: "g1", Nodes: 2, Processes: 1})
	if failures := training.Clean(t.Context(), cutAttempt(t, 2, 0)); len(failures) > 0 {
		t.Errorf("cleaned up: %+v", failures)
	}
	if got, err := shell(t.Context(), cutAttempt(t, 3).Nodes[0].(Node), "echo once"); got != "once\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	noted := func(err error) { t.Log(err) }
	e := cutAttempt(t, 0, 2)
	if failures := new(devices).preflight(t.Context(), e, preflight.Options{Processes: 1}, noted); len(failures) > 0 {
		t.Errorf("checked: %+v", failures)
	}
	for _, n := range e.Nodes {
		if n.(*cutNode).ran < 2 {
			t.Errorf("node %d ran %d commands: it was not checked", n.(*cutNode).rank, n.(*cutNode).ran)
		}
	}
	// One that is always cut is no broken node either, and no reason to end.
	failures := new(devices).preflight(t.Context(), cutAttempt(t, 0, 1000), preflight.Options{Processes: 1}, noted)
	if len(failures) == 0 {
		t.Error("a node that never answers has passed")
	}
	for _, f := range failures {
		if f.Broken || f.Final || !errors.Is(f.Err, ssh.ErrDisconnected) {
			t.Errorf("%+v", f)
		}
	}
}

// Nodes that cannot be reached are waited for, unless they are lost.
func TestHeard(t *testing.T) {
	lost, lose := context.WithCancelCause(t.Context())
	e := &gang.Attempt{Nodes: []gang.Node{&awayNode{cutNode{ctx: lost}}}}
	done := make(chan bool, 1)
	go func() { done <- heard(t.Context(), e) }()
	lose(errors.New("gone"))
	if <-done {
		t.Error("a lost node was heard")
	}
	if !heard(t.Context(), cutAttempt(t, 0, 0)) {
		t.Error("nodes that can be reached were not heard")
	}
}

// An awayNode cannot be reached.
type awayNode struct{ cutNode }

func (n *awayNode) IsUp() bool { return false }
