package gputrain

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/fleet"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/internal/worker"
)

// A Task is something to run on a node: a command, a script, or a call of a
// function. Make one with [Cmd], [Script] or [Function.Call] and set its other
// fields; a Task is a value and can be used more than once.
type Task struct {
	// Name appears in prefixes, events and errors. Empty means "task <index>".
	Name string
	// Args is the command and its arguments. They arrive byte for byte.
	Args []string
	// Script is shell text, run by the node's sh, if Args is empty.
	Script string
	// Env is set for the task, over what Image.Env says.
	Env map[string]string
	// Secrets are set in the task's environment and are nowhere else: in no
	// argument, file, log, event or error. Each may be a reference, such as
	// "env://WANDB_API_KEY": see [Secret]. Functions take none.
	Secrets map[string]Secret
	// Dir is the folder that the task runs in: relative to the node's working
	// directory, or absolute. Empty means the working directory.
	Dir string
	// Stdin is what the command reads.
	Stdin []byte
	// Timeout bounds the time that the task runs; waiting for a node does not
	// count. Zero means no limit.
	Timeout time.Duration
	// Retries is how often the task is started again after a failure of its own. The loss of its
	// node does not count: the task is then queued again, up to three times.
	Retries int
	// Outputs are patterns of files that come back once the task has succeeded, into
	// Result.OutputDir. ** matches any folders. They are looked for in the attempt's own directory
	// (GPUTRAIN_SCRATCH, NodeInfo.Scratch) and in Dir, where only files count that changed since
	// the attempt began. Tasks that run at the same time on a node share Dir: let each write to its
	// own directory. A pattern that matches nothing fails the attempt with CauseOutputs, after the
	// files that match the others have arrived, unless it is marked by [Optional].
	Outputs []string
	// HoldsLease keeps the node's lease while the command runs, even if this program dies or cannot
	// be reached: for a job that is to outlive the program by more than Spec.Lease, and be found
	// again by Attach. The pool's TTL ends it all the same, and without a TTL the machine costs
	// money for as long as the command runs. Functions cannot hold it.
	HoldsLease bool
	// Target says which nodes the task may run on. The zero value is any.
	Target Target

	call *call
}

// A call is a function's name with its argument.
type call struct {
	function string
	marshal  func() (codec.Body, error)
	stream   *worker.Stream // nil if the function has none
	refused  error          // why it cannot be called

	once sync.Once
	arg  codec.Body
	err  error
}

// encode returns the argument. It encodes the argument once, however often that is sent.
func (c *call) encode() (codec.Body, error) {
	c.once.Do(func() { c.arg, c.err = c.marshal() })
	return c.arg, c.err
}

// Cmd returns a command with its arguments. No shell reads them.
func Cmd(name string, args ...string) Task {
	return Task{Args: append([]string{name}, args...)}
}

// Script returns shell text, which the node's own POSIX sh runs.
func Script(text string) Task { return Task{Script: text} }

// label is the task's name in messages.
func (t Task) label(index int) string {
	if t.Name != "" {
		return t.Name
	}
	return "task " + strconv.Itoa(index)
}

// Validate reports everything that is wrong with the task, in one error that
// is [ErrInvalid]. It is called before a task is queued.
func (t Task) Validate() error {
	var f faults
	if t.call != nil {
		t.validateCall(&f)
	} else {
		t.validateCommand(&f)
	}
	f.count("Retries", t.Retries)
	f.duration("Timeout", t.Timeout)
	t.Target.validate(&f)
	for i, pattern := range t.Outputs {
		if err := attempt.CheckPattern(pattern); err != nil {
			f.add("Outputs[%d]: %v", i, err)
		}
	}
	if strings.ContainsAny(t.Name, "\x00\n\r") {
		f.add("Name %q has a newline or NUL", t.Name)
	}
	return f.err("task")
}

func (t Task) validateCommand(f *faults) {
	switch {
	case len(t.Args) > 0 && t.Script != "":
		f.add("both Args and Script are set")
	case len(t.Args) == 0 && strings.TrimSpace(t.Script) == "":
		f.add("the command is empty; make tasks with Cmd, Script or Function.Call")
	case len(t.Args) > 0 && t.Args[0] == "":
		f.add("the command's name is empty")
	}
	for i, a := range t.Args {
		f.text(fmt.Sprintf("Args[%d]", i), a)
	}
	f.text("Script", t.Script)
	f.text("Dir", t.Dir)
	f.env("Env", t.Env)
	for name, value := range t.Secrets {
		f.envName("Secrets", name)
		f.secret(fmt.Sprintf("Secrets[%q]", name), value)
		if _, twice := t.Env[name]; twice {
			f.add("%s is in both Env and Secrets", name)
		}
	}
}

func (t Task) validateCall(f *faults) {
	if len(t.Args) > 0 || t.Script != "" {
		f.add("a call of a function has no Args or Script")
	}
	if t.HoldsLease {
		f.add("a call of a function cannot hold the lease: run a command for that")
	}
	if len(t.Env) > 0 || len(t.Secrets) > 0 || len(t.Stdin) > 0 || t.Dir != "" {
		f.add("a call of a function takes no Env, Secrets, Stdin or Dir: calls share one process; pass what it needs in its argument")
	}
}

// Optional marks a pattern of Task.Outputs that may match nothing: it returns "optional:" and the
// pattern, which can also be written so. For a file whose own name begins with that, write "./"
// before the name.
func Optional(pattern string) string {
	if strings.HasPrefix(pattern, attempt.OptionalMark) {
		return pattern
	}
	return attempt.OptionalMark + pattern
}

// A Target says which nodes a task may run on. The zero value means any. Make
// one with [OnRank] or [OnLabels]. For Broadcast it says which nodes take part.
type Target struct{ allows scheduler.Target }

// OnRank allows only the node of one rank. A rank that the pool does not have is an error at once,
// and so is one whose node is lost or failed.
func OnRank(rank int) Target { return Target{scheduler.OnRank(rank)} }

// OnLabels allows any node that has all of these labels: see [Node].Labels. Labels that no node of
// the pool has, or can come to have, are an error at once.
func OnLabels(labels map[string]string) Target { return Target{scheduler.OnLabels(labels)} }

// String returns "rank 3" or "zone=a, arch=arm64", or "any node".
func (t Target) String() string { return t.allows.String() }

func (t Target) validate(f *faults) {
	if rank, by := t.allows.Rank(); by && rank < 0 {
		f.add("Target is a negative rank")
	}
	for _, l := range t.allows.Labels() {
		if l.Key == "" {
			f.add("Target has a label without a name")
		}
	}
}

// The labels that gputrain gives every node.
const (
	LabelProvider     = fleet.LabelProvider
	LabelRegion       = fleet.LabelRegion
	LabelInstanceType = fleet.LabelInstanceType
	LabelAccelerator  = fleet.LabelAccelerator
	LabelOS           = fleet.LabelOS
	LabelArch         = fleet.LabelArch
	LabelMarket       = fleet.LabelMarket // "spot" or "on-demand"
)

// impossible returns why no node can ever run a task with this target, or nil.
func (p *pool) impossible(t Target) error {
	if t.allows.IsAny() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fleet.Tasks.Impossible(t.allows)
}
