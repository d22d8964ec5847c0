package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// ErrFenced means that a client of a higher generation has taken the node over, with everything that runs there.
var ErrFenced = errors.New("pool was taken over by another program")

// ErrVersion means that the node was set up by a client that speaks another version of the protocol. The error names
// both versions.
var ErrVersion = errors.New("the node's supervisor has another version")

// ErrUnknownTask means that the node does not know the task: it was never started there, or it was forgotten.
var ErrUnknownTask = errors.New("the node does not know it")

// A Found is a task that the node knows: it runs, or it is over and was not released.
type Found struct {
	ID string
	// Over is true if the task has ended, or the process that waited for it was killed.
	Over bool
	// Scratch is the absolute path of the task's own directory, or "" without Spec.Scratch.
	Scratch string
}

// Attach is Start for a node on which another client, dead or alive, has started. It needs that client's Root, and a
// higher generation. It makes nothing. The error is ErrLapsed if the pool's folder is gone, ErrRestarted if the machine
// was restarted, ErrFenced if a client of a higher generation came before, and ErrVersion if the first client spoke
// another version. In all these cases the node is left as it is. Lease and TTL stay those of the first client, and so
// does the rest of the TTL; Config's count only if no watcher was ever armed.
//
// The caller follows each found task by Resume, or ends it by End if it is not wanted; a task that is over can also be
// released at once.
func Attach(ctx context.Context, c Client, cfg Config) (*Node, []Found, error) {
	if cfg.Root == "" {
		return nil, nil, errors.New("attaching to a node needs its pool's folder, Config.Root")
	}
	n, err := newNode(ctx, c, cfg)
	if err != nil {
		return nil, nil, err
	}
	k, told, err := n.open(ctx, attaching)
	if err != nil {
		n.end(err)
		return nil, nil, err
	}
	all := make([]Found, len(told.found))
	for i, f := range told.found {
		all[i] = Found{ID: f.id, Over: f.over}
		if f.scratch != "" {
			n.scratchs.names[f.id] = f.scratch
			all[i].Scratch = told.facts.Root + "/s/" + f.scratch
		}
		if f.over && f.scratch != "" {
			n.scratchs.pending[f.id] = litter{tasks: []string{f.id}}
		}
	}
	n.begin(k, told)
	return n, all, nil
}

// A found is the node's description of a task.
type found struct {
	id, scratch string
	over        bool
}

// A node that lists more than mostFound tasks breaks the protocol. It lists those that run and those that are over and
// were not released.
const mostFound = 1 << 16

// maxName bounds the name of a scratch directory.
const maxName = 64

var scratchPattern = regexp.MustCompile(`^[A-Z0-9]+-[0-9]+$`)

// listed reads the answer to a list. It skips frames about tasks, which the node repeats once the tasks are followed.
func (k *control) listed() (all []found, err error) {
	known := map[string]bool{}
	for {
		f, err := k.frames.next()
		switch {
		case err != nil:
			return nil, err
		case f.kind == 'J':
			return all, nil
		case f.kind != 'I':
			continue
		}
		switch {
		case len(f.words) != 3 || !idPattern.MatchString(f.words[0]) || len(f.words[2]) > maxName:
			return nil, fmt.Errorf("%w: a task in %.80q", errFrame, f.line)
		case len(all) == mostFound:
			return nil, fmt.Errorf("%w: it lists more than %d tasks", errFrame, mostFound)
		case known[f.words[0]]:
			return nil, fmt.Errorf("%w: it lists task %s twice", errFrame, f.words[0])
		}
		known[f.words[0]] = true
		t := found{id: f.words[0], over: f.words[1] == "1"}
		if scratchPattern.MatchString(f.words[2]) {
			t.scratch = f.words[2]
		}
		all = append(all, t)
	}
}

// Resume follows a found task, as Run follows a task that it starts: all of its output, from the first byte on, and
// then its end. It uses the ID, Dir, Grace and Timeout of spec. since is a time before which the task cannot have been
// started: it bounds Exit.Elapsed. Resume starts nothing: if the node does not know the task the error is
// ErrUnknownTask.
func (n *Node) Resume(ctx context.Context, spec Spec, since time.Time, sinks Sinks) (Exit, error) {
	grace := cmp.Or(spec.Grace, DefaultGrace)
	t, err := adopted(spec.ID, grace)
	if err != nil {
		return Exit{}, err
	}
	t.dir, t.live, t.since = spec.Dir, sinks.Live, since
	t.clock = clock(n.client, spec.Timeout, grace)
	if err := n.register(t); err != nil {
		return Exit{}, err
	}
	return n.follow(ctx, t, sinks, grace)
}

// End cancels a found task that is not wanted, and removes all of it with its scratch directory. It does not wait for
// that. It does nothing for a task that is followed.
func (n *Node) End(id string) {
	t, err := adopted(id, DefaultGrace)
	if err != nil {
		return
	}
	t.unwanted = true
	unwanted, cancel := context.WithCancel(context.WithoutCancel(n.life))
	cancel()
	if n.register(t) != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life.Err() != nil {
		return
	}
	n.scratchs.release(id)
	n.wg.Go(func() {
		_, _ = n.follow(unwanted, t, Sinks{}, DefaultGrace) // no caller needs the result
	})
}

// adopted returns a task that another client has started.
func adopted(id string, grace time.Duration) (*task, error) {
	if !idPattern.MatchString(id) {
		return nil, fmt.Errorf("task id %q: %w", id, ErrUnknownTask)
	}
	t := newTask(id)
	t.cancelCall = newCall("cancel", id, tenths(grace))
	return t, nil
}

// tenths returns a grace in tenths of a second.
func tenths(grace time.Duration) string {
	return strconv.FormatInt(int64(grace/(100*time.Millisecond)), 10)
}
