package training

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/gang"
	"github.com/gputrain/gputrain/internal/launcher"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/providers/driver"
)

// members are nodes that run a command together: the gang or, for a check, some of its nodes.
type members struct {
	t       *Training
	nodes   []Node
	layout  *launcher.Gang
	shares  int             // how many attempts gputrain makes
	pattern attempt.Command //secretvet:ignore nothing formats it: what each attempt is like
	resumed string          // the checkpoint to go on from, or empty
}

// gangOf returns an attempt's nodes, which run the program.
func (t *Training) gangOf(e *gang.Attempt) *members {
	nodes := make([]Node, len(e.Nodes))
	for i, n := range e.Nodes {
		nodes[i] = n.(Node)
	}
	m := t.together(nodes, e.Number, e.Port, t.Program.Command)
	m.resumed = e.Resumed
	return m
}

// together returns nodes that run a command under the training's launcher.
func (t *Training) together(nodes []Node, attempt, port int, pattern attempt.Command) *members {
	m := &members{
		t: t, nodes: nodes, pattern: pattern, shares: t.Shares() * len(nodes) / t.Nodes,
		layout: &launcher.Gang{Training: t.Name, Attempt: attempt, Port: port, Processes: t.Processes},
	}
	if t.Launcher == launcher.MPI {
		m.shares = 1
	}
	for _, n := range nodes {
		m.layout.Addrs = append(m.layout.Addrs, n.Addr())
		m.layout.Interfaces = append(m.layout.Interfaces, t.devices.interfaceOf(n))
	}
	return m
}

// env returns the variables of a process, or of a node's launcher.
func (m *members) env(node, local int) map[string]string {
	env := m.layout.Env(m.t.Launcher, node, local)
	env[markName] = m.t.mark()
	maps.Copy(env, m.t.saver.env(m.nodes[node], m.resumed))
	maps.Copy(env, m.pattern.Env)
	return env
}

// command returns the command of a share, which waits for its release.
func (m *members) command(ctx context.Context, s *started) *attempt.Command {
	c := m.pattern
	c.Attempt = m.t.attempt(ctx, s)
	c.From = source(m.t.Name, s.share, s.node)
	c.Started = s.prepared
	c.NodeID = c.ID
	c.Grace = gang.KillGrace
	c.Place = attempt.Place{
		Node: s.node.Name(), NodeRank: s.node.Rank(), Rank: s.rank, Nodes: len(m.nodes), MasterAddr: m.layout.Addrs[0],
		Index: s.share, Attempt: m.layout.Attempt, Sharers: m.layout.Processes,
	}
	c.Env = m.env(s.rank, s.share-s.rank*m.shares/len(m.nodes))
	c.Args, c.Script = m.layout.Command(m.t.Launcher, c.Args, c.Script)
	if c.Script != "" {
		c.Script = awaitRelease + c.Script
	} else { // layout.Command runs a shell
		c.Args = append([]string{"sh", "-c", awaitRelease + `exec "$@"`, "sh"}, c.Args...)
	}
	return &c
}

// run makes one attempt at a share's command. With MPI it is mpirun, whose daemons are started on the other nodes,
// and end before it returns.
func (m *members) run(ctx context.Context, n Node, c *attempt.Command) attempt.Outcome {
	t := m.t
	if t.Launcher != launcher.MPI {
		return t.Runner.Run(ctx, n, n.Supervisor(), c)
	}
	relaying, stop := context.WithCancel(ctx)
	defer stop()
	daemons := 0
	var mu sync.Mutex
	relay := launcher.Relay{
		Open: launcher.Over(n.Commands()), Nodes: m.layout.Addrs,
		Start: func(ctx context.Context, node int, command string) (int, error) {
			mu.Lock()
			daemons++
			id := fmt.Sprintf("%s-d%d", c.NodeID, daemons)
			mu.Unlock()
			return m.daemon(ctx, node, id, command)
		},
	}
	ended := make(chan error, 1)
	begin := sync.OnceFunc(func() {
		relay.Scratch = n.Supervisor().Scratch(c.NodeID) // it is known once mpirun runs
		go func() { ended <- relay.Run(relaying) }()
	})
	started := c.Started
	c.Started = func() {
		started()
		begin()
	}
	o := t.Runner.Run(ctx, n, n.Supervisor(), c)
	stop()
	begin() // it ends at once, if nothing was started
	if err := <-ended; err != nil && o.Failure != nil {
		o.Failure.Err = errors.Join(o.Failure.Err, err)
	}
	return o
}

// daemon runs a daemon of mpirun's on a node, and returns its exit code.
func (m *members) daemon(ctx context.Context, node int, id, command string) (int, error) {
	n := m.nodes[node]
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.Context(), func() { cancel(context.Cause(n.Context())) })()
	memory := &output.Share{}
	defer memory.Return()
	c := attempt.Command{
		Attempt: attempt.Attempt{ID: id, Share: memory, From: source(m.t.Name, node, n), Context: ctx, Dir: m.pattern.Dir, Started: func() {}},
		NodeID:  id, Script: command, Env: m.env(node, 0), Secrets: m.pattern.Secrets, HoldsLease: m.pattern.HoldsLease, Grace: gang.KillGrace,
		Place: attempt.Place{Node: n.Name(), NodeRank: n.Rank(), Rank: node, Nodes: len(m.nodes), MasterAddr: m.layout.Addrs[0], Attempt: m.layout.Attempt, Sharers: m.layout.Processes},
	}
	o := m.t.Runner.Run(ctx, n, n.Supervisor(), &c)
	if o.Release != nil {
		defer o.Release()
	}
	switch f := o.Failure; {
	case f == nil:
		return 0, nil
	case f.ExitCode >= 0:
		return f.ExitCode, nil
	default:
		return 0, fmt.Errorf("%v", f.Err)
	}
}

// explain adds to a failure what its exit code says.
func (t *Config) explain(f *gang.Failure) {
	if f == nil || f.Why == nil || t.Program.Function != "" {
		return
	}
	switch t.Launcher {
	case launcher.Processes:
		f.Rank = f.Share
	case launcher.MPI:
		if launcher.IsUnsupported(f.Why.ExitCode, f.Why.Tail) {
			f.Final, f.Kind = true, gang.NeverStarted
			f.Err = &driver.Error{Op: "train", Kind: driver.ErrUnsupported, Err: errors.New("the gang's first node has no Open MPI that works"), Hint: "add openmpi-bin to Image.Apt"}
		}
	}
}
