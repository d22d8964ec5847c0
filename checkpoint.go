package gputrain

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/checkpoint"
	"github.com/gputrain/gputrain/internal/invalid"
	"github.com/gputrain/gputrain/internal/transfer"
)

// Checkpoints says which checkpoints of a task are kept on this computer, and put back before it starts again. The
// zero value keeps none.
//
// A checkpoint is a folder step-<n> that appears in Dir by a rename, or another folder or file there that has not
// changed for three seconds. Names that begin with a dot are not looked at. In a gang each node may write a part under the same
// name; the first node's part makes the checkpoint whole, so it is renamed last. It is copied while the task runs, and only
// once it is here does it appear under its name. One with a file that is cut off by its form (zip as of PyTorch, safetensors, NumPy,
// HDF5, pickle, tar, JSON), or without all its shards, is not kept: an [EventTransfer] says so, and an older one is used.
//
// Before the task starts, and starts again, the newest checkpoint is in Dir on each of its nodes, under its old name and
// with the parts of all nodes; GPUTRAIN_RESUME and [NodeInfo].Resume have its path. Of those with steps that is the one that came last.
// What a node has that is newer, and is not whole here, then gets a hidden name. If the provider announces that it takes a
// node back, the file that GPUTRAIN_NOTICE names appears, with the seconds that are left: a checkpoint that a command then
// saves is copied at once.
//
// The last checkpoint is copied after the task has ended, however that was. A task that is cancelled has a minute for that, as
// for its Outputs. A copy that fails is tried again. A checkpoint that cannot be copied is an [EventTransfer] with the
// reason as Err, after the second try or once the attempt has ended, and no failure of the task.
// One that cannot be put back is: the attempt ends with CauseNeverStarted. Tasks that run at the same time must not have the same
// Name and To.
type Checkpoints struct {
	// Dir is the folder on the node, relative to Task.Dir or absolute. Empty means one of the task's own. The task finds it in
	// GPUTRAIN_CHECKPOINTS, and a function in [NodeInfo].Checkpoints.
	Dir string
	// To is a folder of this computer. Checkpoints come to To/<Task.Name>/step-<n>, and what is there already, of an earlier
	// task or another pool, is gone on from. Empty means the pool's results directory: see [WithResultsDir].
	To string
	// Keep is how many are kept, here and on each node: the newest. Zero means 2. One that was not copied is never removed
	// from a node.
	//
	// What is here of earlier attempts, and of earlier tasks, is not removed for a name that a node gives. It goes once Keep newer ones
	// are of steps that the attempt has reported (see [Step]), and stays beside the others until then: for good if the task reports
	// no steps, or its checkpoints have other names than step-<n>. If an attempt writes anew under the name of an earlier attempt's, that
	// one is kept under a hidden name, .earlier-<name>.
	Keep int
	// Every is the time between two looks at Dir. Zero means 30 seconds.
	Every time.Duration
	// Shared means that Dir is on storage that all nodes see and that outlives them: nothing is copied, and the task resumes
	// from the newest that is there.
	Shared bool
}

// IsZero reports whether no checkpoints are kept.
func (c Checkpoints) IsZero() bool { return c == Checkpoints{} }

const (
	// leastEvery is the least Checkpoints.Every.
	leastEvery = time.Second
	// mostKeep is the most Checkpoints.Keep.
	mostKeep = 10000
)

func (c Checkpoints) validate(f *invalid.Faults, task string) {
	if c.IsZero() {
		return
	}
	if task == "" {
		f.Add("Checkpoints are set, and they need a Name of the task")
	}
	switch dir := path.Clean(c.Dir); {
	case strings.ContainsAny(c.Dir, "\x00\n\r"):
		f.Add("Checkpoints.Dir %q has a newline or NUL", c.Dir)
	case c.Dir == "":
	case dir == "/", dir == ".", dir == "..", strings.HasPrefix(dir, "../"):
		f.Add("Checkpoints.Dir is %q; name a folder below Task.Dir, or an absolute one, that has nothing but checkpoints", c.Dir)
	}
	switch {
	case strings.Contains(c.To, "://"):
		f.Add("Checkpoints.To is %q; it is a folder of this computer", c.To)
	case strings.ContainsRune(c.To, 0):
		f.Add("Checkpoints.To has a NUL byte")
	case c.Shared && c.To != "":
		f.Add("Checkpoints.To is set, but nothing is copied from a Shared folder")
	case c.Shared && c.Dir == "":
		f.Add("Checkpoints.Dir is empty; name the Shared folder")
	}
	f.Count("Checkpoints.Keep", c.Keep)
	if c.Keep > mostKeep {
		f.Add("Checkpoints.Keep is %d, and the most is %d", c.Keep, mostKeep)
	}
	f.Duration("Checkpoints.Every", c.Every)
	if 0 < c.Every && c.Every < leastEvery {
		f.Add("Checkpoints.Every is %v, and the least is %v", c.Every, leastEvery)
	}
}

// oneWriter refuses tasks of one call that would write checkpoints of the same name.
func oneWriter(tasks []Task) error {
	var names map[string]int
	for i, t := range tasks {
		if t.Checkpoints.IsZero() {
			continue
		}
		if first, twice := names[t.Name]; twice {
			return &Error{
				Op: "task", Kind: ErrInvalid, Err: fmt.Errorf("tasks %d and %d are both named %q, and both have Checkpoints", first, i, t.Name),
				Hint: "give each task with Checkpoints a Name of its own",
			}
		}
		if names == nil {
			names = map[string]int{}
		}
		names[t.Name] = i
	}
	return nil
}

// local returns the settings with an absolute path of this computer, so that a later Chdir does not matter.
func (c Checkpoints) local() Checkpoints {
	if c.To != "" {
		if abs, err := filepath.Abs(c.To); err == nil {
			c.To = abs
		}
	}
	return c
}

// checkpointsOn returns the checkpoints of an attempt on a node, or nil if the task keeps none. They count as its progress.
func (u *unit) checkpointsOn(n *poolNode, a *attempt.Attempt) *attempt.Checkpoints {
	if u.task.Checkpoints.IsZero() {
		return nil
	}
	c := &attempt.Checkpoints{Node: n.checkpointNode(u.task)}
	if u.keeper == nil {
		u.keeper, c.Err = u.newKeeper()
	}
	c.Seen = func(step int64) {
		if step > u.progress.last() { // or the task has said more of it
			a.Saved(step)
		}
	}
	c.Grew = func() { a.Stall.Grew() }
	if c.Keeper = u.keeper; c.Keeper != nil {
		n.keepers.Add(c.Keeper, c.Node)
	}
	return c
}

// checkpointNode returns where a task finds its checkpoints on the node.
func (n *poolNode) checkpointNode(t Task) checkpoint.Node {
	facts, folder := n.Node.Facts(), checkpoint.Folder(t.Name)
	dir := t.Checkpoints.Dir
	switch {
	case dir == "":
		dir = path.Join(facts.Root, "checkpoints", folder)
	case path.IsAbs(dir):
	case path.IsAbs(t.Dir):
		dir = path.Join(t.Dir, dir)
	default:
		dir = path.Join(facts.WorkDir, t.Dir, dir)
	}
	return checkpoint.Node{
		Rank: n.Rank(), Name: fmt.Sprintf("node %d", n.Rank()), Dir: dir, Notice: path.Join(facts.Root, "notices", folder), Files: transfer.Mirror{Remote: n.Node.Files()},
	}
}

// newKeeper returns what keeps the checkpoints of a task, over all its attempts. The event describes the task. report is called
// with each checkpoint that has come to this computer or, with an error, could not.
func newKeeper(p *pool, t Task, ev Event, report func(checkpoint.Report)) (*checkpoint.Keeper, error) {
	c := t.Checkpoints
	to := c.To
	if to == "" && !c.Shared {
		var err error
		if to, err = p.results.Attempt("checkpoints"); err != nil {
			return nil, err
		}
	}
	return checkpoint.New(checkpoint.Config{
		To: filepath.Join(to, checkpoint.Folder(t.Name)), Keep: c.Keep, Every: c.Every, Shared: c.Shared, Limits: p.opts.limits.transfer(),
		Report: report,
		Transfer: func(on checkpoint.Node, name string, sending bool) (transfer.Progress, func(error)) {
			moving := ev
			moving.Node, moving.State, moving.Path = on.Rank, "receiving", name
			if sending {
				moving.State = "sending"
			}
			return p.events.transfer(moving)
		},
	}), nil
}

// newKeeper returns what keeps the checkpoints of the unit's task.
func (u *unit) newKeeper() (*checkpoint.Keeper, error) {
	p := u.batch.c.p
	ev := Event{Kind: EventTransfer, Node: -1, Task: u.id, Name: u.label}
	return newKeeper(p, u.task, ev, func(r checkpoint.Report) {
		if r.Err != nil {
			failed := ev
			failed.State, failed.Path, failed.Err = "failed", r.Name, p.withoutSecrets(r.Err)
			p.events.emit(failed)
		}
	})
}

// announcePatience bounds the time in which a node's tasks learn that its provider takes it back.
const announcePatience = 30 * time.Second

// announce tells the tasks of a node that its provider takes it back, or that it is spared.
func (n *poolNode) announce(spared bool, left time.Duration) {
	ctx, cancel := context.WithTimeout(n.Node.Context(), announcePatience)
	defer cancel()
	if spared {
		n.keepers.Spared(ctx)
	} else {
		n.keepers.Notice(ctx, left)
	}
}
