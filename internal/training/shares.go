package training

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/calls"
	"github.com/gputrain/gputrain/internal/gang"
	"github.com/gputrain/gputrain/internal/journal"
	"github.com/gputrain/gputrain/internal/launcher"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/worker"
)

var (
	// awaitRelease is what a share's shell does before its command: it waits for its release.
	//go:embed release.sh
	awaitRelease string
	// killMarked ends all processes that have a mark in their environment.
	//go:embed kill.sh
	killMarked string
)

// releaseFile is the file in a share's scratch directory that releases it.
const releaseFile = "/.gputrain-release"

// Start is for the gang.
func (t *Training) Start(ctx context.Context, e *gang.Attempt, track *gang.Track) {
	t.forget()
	t.port = e.Port
	t.log.note(func(r *journal.Training) {
		r.Attempt, r.Port, r.Resumed, r.Restarts, r.Fruitless = e.Number, e.Port, e.Resumed, e.Restarts, e.Fruitless
		r.Prepared, r.Released, r.Shares, r.Processes, r.Nodes = time.Now().UnixNano(), 0, t.Shares(), t.Processes, nil
		for _, n := range e.Nodes {
			r.Nodes = append(r.Nodes, n.Name())
		}
	})
	t.begin(e)
	for share := range t.Shares() {
		attempted := func(ctx context.Context, s *started) attempt.Outcome {
			if t.Program.Function != "" {
				return s.node.Call(t.call(ctx, e, s))
			}
			m := t.gangOf(e)
			return m.run(ctx, s.node, m.command(ctx, s))
		}
		t.Go(func() { t.run(ctx, e, track, share, attempted) })
	}
}

// Resume is for the gang.
func (t *Training) Resume(ctx context.Context, e *gang.Attempt, track *gang.Track) {
	t.begin(e)
	t.follow(ctx, e, track)
	for share := range t.Shares() {
		attempted := func(ctx context.Context, s *started) attempt.Outcome {
			c := t.gangOf(e).command(ctx, s)
			c.Started = func() { // the earlier program may have died before it released this one
				s.prepared()
				if _, err := shell(ctx, s.node, releases(s.node, s.id)); err != nil && ctx.Err() == nil {
					track.Fault(gang.Failure{Kind: gang.NeverStarted, Node: s.rank, Share: -1, Rank: -1, Err: err})
				}
			}
			return t.Runner.Resume(ctx, s.node, s.node.Supervisor(), c, time.Unix(0, t.log.entry.Prepared))
		}
		t.Go(func() { t.run(ctx, e, track, share, attempted) })
	}
}

// begin makes room for the shares of an attempt.
func (t *Training) begin(e *gang.Attempt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shares = make([]Share, t.Shares())
	for i := range t.output {
		t.output[i].Return()
	}
	t.output = make([]output.Share, t.Shares())
	t.progress, t.stacks = make([]*progress, t.Shares()), nil
	t.release = make(chan struct{})
	for i := range t.shares {
		n, _ := t.nodeOf(e, i)
		t.shares[i] = Share{Node: n, Rank: i, Outcome: attempt.Outcome{ExitCode: -1}}
	}
}

// A started is a share that is being started.
type started struct {
	id       string
	share    int
	node     Node
	rank     int // of the node
	track    *gang.Track
	prepared func()
	output   *output.Share
	progress *progress
	released <-chan struct{}
}

// run takes a share from its start to its end.
func (t *Training) run(ctx context.Context, e *gang.Attempt, track *gang.Track, share int, attempted func(context.Context, *started) attempt.Outcome) {
	n, rank := t.nodeOf(e, share)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.Context(), func() { cancel(context.Cause(n.Context())) })()
	t.mu.Lock()
	s := &started{id: t.attemptID(e.Number, share), share: share, node: n, rank: rank, track: track, output: &t.output[share], progress: &progress{track: track, share: share, keeper: t.Keeper}, released: t.release}
	t.progress[share] = s.progress
	t.mu.Unlock()
	s.prepared = sync.OnceFunc(func() { track.Prepared(share) })
	attempting, ended := context.WithCancel(context.WithoutCancel(ctx))
	var hastened sync.WaitGroup
	if t.Launcher == launcher.Torchrun && t.Program.Function == "" {
		hastened.Go(func() { t.hasten(attempting, n, ctx) })
	}
	o := attempted(ctx, s)
	ended()
	hastened.Wait()
	f := failureOf(o.Failure, share, rank)
	if t.explain(f); f != nil && t.Launcher == launcher.Torchrun {
		f.Stack = traceback(o)
	}
	t.mu.Lock()
	t.shares[share] = Share{Node: n, Rank: share, Outcome: o, Ended: time.Now(), Failure: f}
	if o.Release != nil {
		t.cleanups = append(t.cleanups, o.Release)
	}
	t.mu.Unlock()
	track.Ended(share, f)
}

// failureOf returns the failure of a share, or nil for success.
func failureOf(why *attempt.Failure, share, node int) *gang.Failure {
	if why == nil {
		return nil
	}
	f := &gang.Failure{Kind: gang.Own, Node: node, Share: share, Rank: -1, Why: why, Err: why.Err, At: why.At}
	switch why.Cause {
	case attempt.NodeLost:
		f.Kind = gang.NodeLost
	case attempt.Outputs:
		if errors.Is(why.Err, supervisor.ErrUnknownTask) { // the earlier program died before it was started
			f.Kind = gang.NeverStarted
		}
	case attempt.NeverStarted: // another attempt would not find its folder, or its program, either
		f.Kind, f.Final = gang.NeverStarted, true
	}
	return f
}

// attempt returns what attempts at commands and calls have in common.
func (t *Training) attempt(ctx context.Context, s *started) attempt.Attempt {
	a := t.Program.Command.Attempt
	if t.Program.Function == "" {
		a.Outputs = append(slices.Clone(a.Outputs), records...)
	}
	a.ID = s.id
	a.Context = ctx
	a.Share = s.output
	a.Progress = s.progress
	a.Failed = func(f *attempt.Failure) {
		if s.track == nil { // a check
			return
		}
		known := *f // a copy: the attempt changes f if its files do not come
		early := failureOf(&known, s.share, s.rank)
		t.explain(early)
		s.track.Failed(s.share, *early)
	}
	return a
}

// call returns the call of a function. It waits for its release once everything it needs is on its node.
func (t *Training) call(ctx context.Context, e *gang.Attempt, s *started) *calls.Call {
	a := t.attempt(ctx, s)
	a.From = source(t.Name, s.share, s.node)
	a.Started = func() {
		s.prepared()
		select {
		case <-s.released:
		case <-ctx.Done():
		}
	}
	c := &calls.Call{
		Attempt: a, Function: t.Program.Function, Arg: t.Program.Arg, Members: worker.NewMembers(t.gangOf(e).layout.Addrs...),
		Place: worker.Place{Rank: s.rank, Accelerators: s.node.Devices().Visible(nil), TaskID: t.ID, Attempt: e.Number, MasterPort: e.Port},
	}
	if t.Keeper != nil {
		at := s.node.Checkpoints()
		c.Place.Checkpoints, c.Place.Resume = at.Dir, resumePath(at, e.Resumed)
	}
	return c
}

// follow begins to copy checkpoints and to follow accelerators, until the processes have ended.
func (t *Training) follow(ctx context.Context, e *gang.Attempt, track *gang.Track) {
	t.saver.begin(e, track)
	t.devices.watch(ctx, e, track)
	if t.Program.Function == "" && t.Launcher != launcher.MPI { // mpirun's processes get their world from mpirun
		t.Go(func() { t.watchWorlds(ctx, e, track) })
	}
}

// Release is for the gang.
func (t *Training) Release(ctx context.Context, e *gang.Attempt, track *gang.Track) []gang.Failure {
	t.follow(ctx, e, track)
	if t.Program.Function != "" {
		t.mu.Lock()
		close(t.release)
		t.mu.Unlock()
		return nil
	}
	ids := map[Node][]string{}
	for share := range t.Shares() {
		n, _ := t.nodeOf(e, share)
		ids[n] = append(ids[n], t.attemptID(e.Number, share))
	}
	return each(e, func(n Node) error {
		if len(ids[n]) == 0 {
			return nil
		}
		_, err := shell(ctx, n, releases(n, ids[n]...))
		return err
	})
}

// releases returns the shell text that releases shares on a node. It may run twice.
func releases(n Node, ids ...string) string {
	files := make([]string, len(ids))
	for i, id := range ids {
		files[i] = word(n.Supervisor().Scratch(id) + releaseFile)
	}
	return ": >" + strings.Join(files, " && : >")
}

// each calls f for all nodes of an attempt at once, and returns what failed where, unless the node was lost.
func each(e *gang.Attempt, f func(Node) error) (failures []gang.Failure) {
	errs := make([]error, len(e.Nodes))
	var all sync.WaitGroup
	for i, n := range e.Nodes {
		if n == nil || n.Context().Err() != nil {
			continue
		}
		all.Go(func() { errs[i] = f(n.(Node)) })
	}
	all.Wait()
	for i, err := range errs {
		if err != nil && e.Nodes[i].Context().Err() == nil {
			failures = append(failures, gang.Failure{Kind: gang.NeverStarted, Node: i, Share: -1, Rank: -1, At: time.Now(), Err: err})
		}
	}
	return failures
}

// word returns text that a POSIX shell reads as one word.
func word(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// kill ends whatever the training has left on a node.
func (t *Config) kill(ctx context.Context, n Node) error {
	mark, err := markName+"="+t.mark(), error(nil)
	if t.Program.Function != "" {
		mark, err = n.EndCalls(ctx)
	}
	if err == nil {
		_, err = shell(ctx, n, "mark="+word(mark)+"\n"+killMarked)
	}
	if err != nil {
		return fmt.Errorf("what was left of the training could not be ended: %w", err)
	}
	return nil
}

const (
	// A node that answers and does not end what it is told to is asked sweeps times, with a sweepPause between them.
	sweeps     = 10
	sweepPause = 30 * time.Second
)

// Sweep waits until nothing of a training is left on a node, or the node is given up.
func Sweep(t *Training, n Node) {
	for range sweeps {
		if t.kill(n.Context(), n) == nil || !retry.Sleep(n.Context(), sweepPause) {
			return
		}
	}
}

// Clean is for the gang.
func (t *Training) Clean(ctx context.Context, e *gang.Attempt) []gang.Failure {
	failures := each(e, func(n Node) error {
		if err := t.kill(ctx, n); err != nil {
			return err
		}
		return memoryFree(ctx, n)
	})
	t.saver.finish(ctx, e, false)
	return append(failures, t.devices.dues(e)...)
}
