package training

import (
	"context"
	"errors"
	"path"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/checkpoint"
	"github.com/gputrain/gputrain/internal/gang"
	"github.com/gputrain/gputrain/providers/driver"
)

// A saver keeps the checkpoints of a training, and announces the ends of nodes to its processes.
type saver struct {
	keeper *checkpoint.Keeper // nil if none are kept

	mu      sync.Mutex
	current *saving // of the last attempt, or nil
	made    int64   // grows with each checkpoint that comes here
	next    func()  // called once the next one has come, or nil
}

// saving copies the checkpoints of one attempt.
type saving struct {
	nodes []checkpoint.Node
	stop  context.CancelFunc
	done  sync.WaitGroup
	once  sync.Once
}

// checkpointNodes returns where the nodes of an attempt have the checkpoints.
func checkpointNodes(e *gang.Attempt) []checkpoint.Node {
	nodes := make([]checkpoint.Node, len(e.Nodes))
	for i, n := range e.Nodes {
		nodes[i] = n.(Node).Checkpoints()
	}
	return nodes
}

// restore puts the newest checkpoint on all nodes of an attempt.
func (v *saver) restore(ctx context.Context, e *gang.Attempt) []gang.Failure {
	if v.keeper == nil {
		return nil
	}
	name, _, err := v.keeper.Restore(ctx, checkpointNodes(e))
	if err != nil && ctx.Err() == nil && len(gang.Lost(e)) == 0 {
		f := gang.Failure{Kind: gang.NeverStarted, Node: -1, Share: -1, Rank: -1, At: time.Now(), Err: err}
		if on, ok := errors.AsType[*checkpoint.NodeError](err); ok {
			f.Node = on.Node
		}
		return []gang.Failure{f}
	}
	e.Resumed = name
	return nil
}

// begin begins to copy the checkpoints of an attempt, and to announce the ends of nodes to its processes.
func (v *saver) begin(e *gang.Attempt, track *gang.Track) {
	s := &saving{nodes: checkpointNodes(e)}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	for i, n := range e.Nodes {
		forget := n.(Node).Announce(func(left time.Duration, spared bool) { v.announced(ctx, s, track, i, left, spared) })
		context.AfterFunc(ctx, forget)
	}
	if v.keeper != nil { // a checkpoint counts as a step
		s.done.Go(func() {
			v.keeper.Watch(ctx, s.nodes, track.Grew, track.Checkpoint)
		})
	}
	v.mu.Lock()
	v.current = s
	v.mu.Unlock()
}

// announced tells all processes of the gang that the provider takes one of its nodes back. Once a checkpoint that came after
// that is here, the attempt ends: what it did from then on would be lost.
func (v *saver) announced(ctx context.Context, s *saving, track *gang.Track, node int, left time.Duration, spared bool) {
	if v.keeper == nil {
		_ = checkpoint.Announce(ctx, s.nodes, left, spared)
		return
	}
	if spared {
		v.afterNext(nil)
		_ = v.keeper.Spared(ctx, s.nodes)
		return
	}
	v.afterNext(func() {
		track.Fault(gang.Failure{Kind: gang.NodeLost, Node: node, Share: -1, Rank: -1, Err: &driver.Error{Op: "train", Kind: driver.ErrPreempted}})
	})
	_ = v.keeper.Notice(ctx, s.nodes, left) // a node that cannot be told goes on
}

// afterNext has f, which may be nil, called once the next checkpoint has come here.
func (v *saver) afterNext(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.next = f
}

// came notes that a checkpoint has come to this computer.
func (v *saver) came(step int64) {
	v.mu.Lock()
	v.made = max(v.made+1, step)
	next := v.next
	v.next = nil
	v.mu.Unlock()
	if next != nil {
		next()
	}
}

// count returns a number that grows with each checkpoint that has come.
func (v *saver) count() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.made
}

// finish copies what the processes of an attempt have left, once all have ended. It does so once for each attempt.
func (v *saver) finish(ctx context.Context, e *gang.Attempt, succeeded bool) {
	v.mu.Lock()
	s := v.current
	v.mu.Unlock()
	if s == nil {
		return
	}
	s.once.Do(func() {
		v.afterNext(nil)
		s.stop()
		s.done.Wait()
		if v.keeper == nil {
			return
		}
		nodes := s.nodes
		if lost := gang.Lost(e); len(lost) > 0 {
			if lost[0].Node == 0 || !v.keeper.OneWriter() {
				_ = v.keeper.Last(ctx, nil, false) // it tells what has not come
				return                             // a part of the last checkpoint is gone
			}
			nodes = nodes[:1]
		}
		ctx, cancel := context.WithTimeout(ctx, savePatience)
		defer cancel()
		_ = v.keeper.Last(ctx, nodes, succeeded) // it reports why it could not
	})
}

// savePatience bounds how long the last checkpoint of an attempt is copied.
const savePatience = time.Hour

// env returns the variables by which a command on a node finds its checkpoints.
func (v *saver) env(n Node, resumed string) map[string]string {
	at := n.Checkpoints()
	if v.keeper == nil {
		return map[string]string{"GPUTRAIN_NOTICE": at.Notice}
	}
	return map[string]string{"GPUTRAIN_CHECKPOINTS": at.Dir, "GPUTRAIN_RESUME": resumePath(at, resumed), "GPUTRAIN_NOTICE": at.Notice}
}

// resumePath returns the path of a checkpoint on a node.
func resumePath(at checkpoint.Node, name string) string {
	if name == "" {
		return ""
	}
	return path.Join(at.Dir, name)
}
