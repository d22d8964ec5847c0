package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"time"

	"github.com/gputrain/gputrain/internal/overdue"
)

// A Spec is one task: a command, or a script.
type Spec struct {
	// ID names the attempt. It is never used again: starting is idempotent by it.
	ID string
	// Args are the command and its arguments. Script is shell text instead.
	Args   []string
	Script string
	// Env is added to the environment, over what SetBase has. Secrets are too,
	// and reach neither the disk nor any command line.
	Env, Secrets map[string]string
	// Dir is where it runs, relative to WorkDir.
	Dir string
	// Stdin is read to its end before the command starts. Nil is empty.
	Stdin io.Reader
	// Timeout bounds how long the command runs. Zero means no bound. It is then
	// ended as by a cancelled ctx. The node keeps this time, and Run sees to it that it
	// does: a node that has not reported the end overdue.Grace after Timeout and Grace
	// is given up.
	Timeout time.Duration
	// Grace is how long its processes have between TERM and KILL. Zero means
	// DefaultGrace.
	Grace time.Duration
	// Scratch gives the attempt an empty directory of its own, which the command
	// finds by the variable GPUTRAIN_SCRATCH. It stays until Release, and so does all
	// that the node knows of the attempt: whoever attaches before that finds it, with
	// its whole output.
	Scratch bool
	// HoldsLease keeps the node from lapsing while the task runs, though no client is
	// heard. Its TTL ends it all the same.
	HoldsLease bool
	// Mark, with Scratch, has a file made when the command starts: see Marker.
	Mark bool
}

// DefaultGrace is how long processes have between TERM and KILL.
const DefaultGrace = 10 * time.Second

// Sinks take what a task tells. They are called by the goroutine that called
// Run, one at a time. A sink that blocks holds up its own task's output only.
type Sinks struct {
	// Stdout and Stderr take the output as it comes. Nil drops it.
	Stdout, Stderr io.Writer
	// Started is called once, before any output: when the command has run for a
	// moment, or has ended.
	Started func()
	// Live is true where somebody watches: output is then asked for more often.
	Live bool
}

// cancelPatience is how long, beyond its grace, the end of a cancelled task is
// waited for.
const cancelPatience = 15 * time.Second

// A node that has reported the end of a task, and then needs longer than drainPatience and
// overdue.Grace for drainLeast bytes of what is left of its output, is given up.
const (
	drainPatience = time.Minute
	drainLeast    = 64 << 10
)

// clock returns what keeps a task's Timeout on this side.
func (n *Node) clock(timeout, grace time.Duration) *overdue.Clock {
	if timeout <= 0 {
		return nil
	}
	return overdue.New(timeout+grace, n.slack, n.isUp)
}

// isUp reports whether the node can be reached now.
func (n *Node) isUp() bool {
	_, down := n.client.Down()
	return !down
}

// Run runs a task and returns when it has ended and all of its output has been
// given to the sinks. Cut connections are waited out. When ctx ends the task's
// processes are ended; the Exit then says Cancelled, unless they ended first.
// An error that wraps ErrNotStarted says why the command never ran, and ErrOverdue that
// the node did not keep Timeout; any other means that its end is not known: the node was
// lost, or ctx ended and the node could not be told. A sink's error ends the task and is
// returned.
func (n *Node) Run(ctx context.Context, spec Spec, sinks Sinks) (Exit, error) {
	t, err := n.prepare(ctx, spec, sinks)
	if err != nil {
		return Exit{}, err
	}
	if err := n.register(t); err != nil {
		return Exit{}, err
	}
	return n.follow(ctx, t, sinks, cmp.Or(spec.Grace, DefaultGrace))
}

// prepare makes a task of a spec, with its stdin in place on the node.
func (n *Node) prepare(ctx context.Context, spec Spec, sinks Sinks) (*task, error) {
	refuse := func(err error) (*task, error) { return nil, fmt.Errorf("%w: %w", ErrNotStarted, err) }
	if !idPattern.MatchString(spec.ID) {
		return refuse(fmt.Errorf("task id %q: want lower-case letters, digits and dashes", spec.ID))
	}
	if len(spec.Args) == 0 && spec.Script == "" || len(spec.Args) > 0 && (spec.Args[0] == "" || spec.Script != "") {
		return refuse(errors.New("want either a command or a script"))
	}
	n.mu.Lock()
	base := n.base
	n.mu.Unlock()
	exports, others, err := base.variables(spec.Env, spec.Secrets)
	if err != nil {
		return refuse(err)
	}
	args := spec.Args
	if spec.Script != "" {
		if args, err = n.script(ctx, spec); err != nil {
			return nil, err
		}
	}
	if len(others) > 0 {
		args = append(append([]string{"env"}, others...), args...)
	}
	t := newTask(spec.ID)
	t.dir, t.live = spec.Dir, sinks.Live
	dir := n.facts.WorkDir
	if path.IsAbs(spec.Dir) {
		dir = spec.Dir
	} else if spec.Dir != "" {
		dir += "/" + spec.Dir
	}
	stdin := "/dev/null"
	if spec.Stdin != nil {
		stdin = spec.ID + ".in"
		if err := n.store(ctx, stdin, spec.Stdin); err != nil {
			return nil, fmt.Errorf("stdin of %s: %w", spec.ID, err)
		}
	}
	scratch := "-"
	if spec.Scratch {
		scratch = n.scratch(spec.ID)
	}
	grace := tenths(cmp.Or(spec.Grace, DefaultGrace))
	mark := ""
	if spec.Mark {
		mark = "1"
	}
	hold := ""
	if spec.HoldsLease {
		hold = "1"
	}
	start := newCall("start", spec.ID, dir, timeout(spec.Timeout), grace, stdin, scratch, mark, hold, strconv.Itoa(len(exports)))
	start.args(exports...)
	start.args(args...)
	if start.err != nil {
		return refuse(fmt.Errorf("an argument or the folder: %w", start.err))
	}
	t.startCall, t.cancelCall = start, newCall("cancel", spec.ID, grace)
	t.since, t.clock = time.Now(), n.clock(spec.Timeout, cmp.Or(spec.Grace, DefaultGrace))
	return t, nil
}

// timeout returns seconds with three decimals, "0" for none.
func timeout(d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	ms := int64((d + time.Millisecond - 1) / time.Millisecond)
	return fmt.Sprintf("%d.%03d", ms/1000, ms%1000)
}

// follow gives a task's output to its sinks until it has ended.
func (n *Node) follow(ctx context.Context, t *task, sinks Sinks, grace time.Duration) (Exit, error) {
	defer t.clock.Stop()
	var drain *overdue.Clock // nil while the command runs
	defer func() { drain.Stop() }()
	var drained int64
	var (
		out     [2][]byte
		passed  [2]int64
		broken  error // a sink's
		told    bool  // sinks.Started was called
		expired <-chan time.Time
	)
	ended := ctx.Done()
	cancel := func() {
		ended = nil
		timer := time.NewTimer(grace + cancelPatience)
		expired = timer.C
		t.mu.Lock()
		t.cancel = true
		t.mu.Unlock()
		n.send(t.cancelCall)
	}
	for {
		started, complete := t.take(&out)
		if started && !told {
			told = true
			if sinks.Started != nil {
				sinks.Started()
			}
		}
		if broken == nil {
			if broken = sinks.write(&out); broken == nil {
				passed[stdout] += int64(len(out[stdout]))
				passed[stderr] += int64(len(out[stderr]))
			} else if ended != nil {
				cancel()
			}
		}
		if complete {
			n.forget(t, passed[stdout]+passed[stderr])
			x := *t.exit
			x.StdoutBytes, x.StderrBytes = passed[stdout], passed[stderr]
			x.Scratch = n.Scratch(t.id)
			return x, cmp.Or(t.err, broken)
		}
		if len(out[stdout])+len(out[stderr]) > 0 {
			n.notice()
		}
		running, draining := t.clock.Due(), drain.Due()
		if over, got := t.ended(); over {
			running = nil
			switch {
			case drain == nil:
				drain, drained = overdue.New(drainPatience, n.slack, n.isUp), got
				draining = drain.Due()
			case got >= drained+drainLeast:
				drain.Restart()
				drained = got
			}
		}
		select {
		case <-t.wake:
		case <-running:
			if t.clock.Over() {
				return n.late(t, passed, fmt.Errorf("%w: it has not told that it has ended", ErrOverdue))
			}
		case <-draining:
			if drain.Over() {
				return n.late(t, passed, errors.New("the node does not send what it has printed"))
			}
		case <-ended:
			cancel()
		case <-expired:
			n.abandon(t)
			return Exit{}, fmt.Errorf("the node does not say that task %s has ended: %w", t.id, cmp.Or(broken, context.Cause(ctx)))
		case <-n.life.Done():
			return Exit{}, fmt.Errorf("task %s: %w", t.id, n.Err())
		}
	}
}

// late gives up a node that has not told what it had to long ago.
func (n *Node) late(t *task, passed [2]int64, why error) (Exit, error) {
	n.abandon(t)
	why = fmt.Errorf("task %s: %w", t.id, why)
	n.Fail(errors.New(why.Error())) // its other tasks may have no time limit
	return Exit{Code: -1, Elapsed: time.Since(t.since), StdoutBytes: passed[stdout], StderrBytes: passed[stderr]}, why
}
