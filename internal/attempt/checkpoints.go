package attempt

import (
	"context"
	"path"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/checkpoint"
)

// Checkpoints are those of the task of an attempt, on the attempt's node.
type Checkpoints struct {
	Keeper *checkpoint.Keeper
	Node   checkpoint.Node
	// Err is why there is no Keeper.
	Err error
	// Seen, if not nil, is called with the step of each checkpoint that appears, and Grew when one grows.
	Seen func(step int64)
	Grew func()
	// Resume is the path on the node of the checkpoint to go on from, or empty. Restore sets it.
	Resume string
}

// env returns the variables by which a command finds its checkpoints.
func (c *Checkpoints) env() map[string]string {
	if c == nil {
		return nil
	}
	return map[string]string{"GPUTRAIN_CHECKPOINTS": c.Node.Dir, "GPUTRAIN_RESUME": c.Resume, "GPUTRAIN_NOTICE": c.Node.Notice}
}

// Restore puts the newest checkpoint on the node of an attempt that is about to begin. It returns the failure of the attempt
// if that cannot be done: from its start, the task would repeat what it has done and write over it.
func (r *Runner) Restore(ctx context.Context, n Node, a *Attempt) *Failure {
	c := a.Checkpoints
	if c == nil {
		return nil
	}
	err := c.Err
	if err == nil {
		var name string
		if name, _, err = c.Keeper.Restore(ctx, []checkpoint.Node{c.Node}); name != "" {
			c.Resume = path.Join(c.Node.Dir, name)
		}
	}
	var f *Failure
	switch {
	case err == nil:
		return nil
	case a.Context.Err() != nil:
		f = a.cancelled()
	case n.IsOver():
		f = Failed(NodeLost, n.Err())
	default:
		f = Failed(NeverStarted, r.Secrets.Error(err))
	}
	a.Judged(f, time.Now())
	return f
}

// A Saver copies the checkpoints of one attempt, while it runs and at its end.
type Saver struct {
	runner *Runner
	c      *Checkpoints
	ctx    context.Context // ends KeepPatience after the attempt's
	cancel context.CancelCauseFunc
	stop   context.CancelFunc
	watch  sync.WaitGroup
}

// Save returns what copies the checkpoints of an attempt that is about to begin, or to be resumed, or nil if it has none. The
// caller calls Begin once it runs, and Finish at its end.
func (r *Runner) Save(ctx context.Context, a *Attempt) *Saver {
	if a.Checkpoints == nil || a.Checkpoints.Keeper == nil {
		return nil
	}
	s := &Saver{runner: r, c: a.Checkpoints, stop: func() {}}
	s.ctx, s.cancel = outlasting(ctx, KeepPatience)
	r.Keeping.add()
	return s
}

func (s *Saver) nodes() []checkpoint.Node { return []checkpoint.Node{s.c.Node} }

// Begin starts to look at the node.
func (s *Saver) Begin() {
	if s == nil {
		return
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(s.ctx)
	s.watch.Go(func() { s.c.Keeper.Watch(ctx, s.nodes(), s.c.Grew, s.c.Seen) })
}

// Finish copies the last checkpoint of an attempt that is over, but not longer than KeepPatience after the end of the context.
// That it cannot come is reported, and no failure of the attempt. ended reports that its end on the node is known.
func (s *Saver) Finish(f *Failure, ended bool) {
	if s == nil {
		return
	}
	defer s.runner.Keeping.done()
	defer s.cancel(nil)
	s.stop()
	s.watch.Wait()
	if ended && (f == nil || f.Cause != NodeLost && f.Cause != NeverStarted) {
		_ = s.c.Keeper.Last(s.ctx, s.nodes(), f == nil)
	} else {
		_ = s.c.Keeper.Last(s.ctx, nil, false) // it tells what has not come
	}
}
