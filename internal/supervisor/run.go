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
	// Env is added to the environment, and overrides SetBase. So do Secrets, which reach neither the disk nor any
	// command line.
	Env, Secrets map[string]string
	// Dir is the command's folder, relative to WorkDir.
	Dir string
	// Stdin is read to its end before the command starts. Nil is empty.
	Stdin io.Reader
	// Timeout bounds how long the command runs. Zero means no bound. After it the command is ended as by a cancelled
	// ctx. The node enforces this limit, and Run checks that: a node that has not reported the end overdue.Grace after
	// Timeout and Grace is given up.
	Timeout time.Duration
	// Grace is how long the task's processes have between TERM and KILL. Zero means DefaultGrace. The cause of the end
	// of Run's ctx may say less: see cutoff.Grace.
	Grace time.Duration
	// Scratch gives the attempt an empty directory of its own, which the command finds by the variable
	// GPUTRAIN_SCRATCH, and another one for its step files: see [Steps]. The directory stays until Release,
	// and so does everything that the node knows of the attempt: a program that attaches before that finds
	// it, with its whole output.
	Scratch bool
	// HoldsLease keeps the node from lapsing while the task runs, though it hears from no client. The TTL still ends
	// it.
	HoldsLease bool
	// TTY gives the command a terminal of its own, which is its controlling one, for stdout and stderr. What it writes
	// there is its stdout; it has no stderr. A Stdin that is not nil is typed there, without an echo, and then the end
	// of the input, once: lines of more than 4095 bytes are cut off, and control characters act as keys. The terminal's size is in
	// COLUMNS and LINES, or 80 by 24, and TERM is xterm-256color unless it is set. Lines end as the command ends them.
	// Without perl the node needs python3 for this.
	TTY bool
	// Sharers is how many tasks the processors of the node are divided among. From two on OMP_NUM_THREADS is the task's
	// share of them, unless Env, Secrets or SetBase has it.
	Sharers int
	// Mark, with Scratch, makes a file when the command starts: see Marker.
	Mark bool
}

// DefaultGrace is the time between TERM and KILL.
const DefaultGrace = 10 * time.Second

// Sinks receive a task's output and events. They are called by the goroutine that called Run, one at a time. A sink
// that blocks holds up its own task's output only.
type Sinks struct {
	// Stdout and Stderr receive the output as it comes. Nil drops it.
	Stdout, Stderr io.Writer
	// Started is called once, before any output: when the command has run for a
	// moment, or has ended.
	Started func()
	// Live asks for output more often, for a user who watches it.
	Live bool
}

// clock returns this side's clock for a time limit of the node's, or nil if there is no limit.
func clock(c Client, timeout, grace time.Duration) *overdue.Clock {
	if timeout <= 0 {
		return nil
	}
	return overdue.New(timeout+grace, overdue.Grace, func() bool {
		_, down := c.Down()
		return !down
	})
}

// Run runs a task and returns when it has ended and the sinks have all of its output. It waits out cut connections.
// When ctx ends Run ends the task's processes; Exit.Cause is then Cancelled, unless they ended first. An error that
// wraps ErrNotStarted means that the command never ran, and ErrOverdue that the node did not enforce Timeout; after any
// other error the task's end is unknown: the node was lost, or ctx ended and the node could not be reached. A sink's
// error ends the task and is returned.
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

// prepare makes a task of a spec, with its stdin stored on the node.
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
	if spec.TTY {
		spec.Env = base.withDefault(spec.Env, spec.Secrets, "TERM", "xterm-256color")
	}
	if spec.Sharers > 1 && n.facts.CPUs > 0 {
		spec.Env = base.withDefault(spec.Env, spec.Secrets, "OMP_NUM_THREADS", strconv.Itoa(max(n.facts.CPUs/spec.Sharers, 1)))
	}
	exports, others, err := base.variables(spec.Env, spec.Secrets)
	if err != nil {
		return refuse(err)
	}
	args := spec.Args
	if spec.Script != "" {
		if args, err = n.files.script(ctx, spec); err != nil {
			return nil, err
		}
	}
	args = words(args, exports, others)
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
		if err := n.files.store(ctx, stdin, spec.Stdin); err != nil {
			return nil, fmt.Errorf("stdin of %s: %w", spec.ID, err)
		}
	}
	scratch := "-"
	if spec.Scratch {
		n.mu.Lock()
		scratch = n.scratchs.give(spec.ID, n.control)
		n.mu.Unlock()
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
	tty := ""
	if spec.TTY {
		tty = base.size(spec.Env)
	}
	start := newCall("start", spec.ID, dir, timeout(spec.Timeout), grace, stdin, scratch, mark, hold, tty, strconv.Itoa(len(exports)))
	start.args(exports...)
	start.args(args...)
	if start.err != nil {
		return refuse(fmt.Errorf("an argument or the folder: %w", start.err))
	}
	t.startCall, t.cancelCall = start, newCall("cancel", spec.ID, grace)
	t.since, t.clock = time.Now(), clock(n.client, spec.Timeout, cmp.Or(spec.Grace, DefaultGrace))
	return t, nil
}

// timeout formats seconds with three decimals, or "0" for no timeout.
func timeout(d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	ms := int64((d + time.Millisecond - 1) / time.Millisecond)
	return fmt.Sprintf("%d.%03d", ms/1000, ms%1000)
}
