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
	"github.com/gputrain/gputrain/internal/invalid"
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
	// Env is set for the task, over what Image.Env says. It is kept in clear: a variable that is a
	// credential by its name, such as HF_TOKEN, is [ErrInvalid], and belongs into Secrets.
	Env map[string]string
	// Secrets are set in the task's environment and are nowhere else: in no
	// argument, file, log, event or error. Each may be a reference, such as
	// "env://WANDB_API_KEY": see [Secret]. They override Spec.Secrets, which functions have too;
	// functions take none of their own.
	Secrets map[string]Secret
	// TTY gives the command a terminal of its own, for programs that draw progress: its stdout and
	// stderr are the terminal, whose output is all in Result.Stdout. Lines end as the command ends
	// them, without carriage returns that a terminal would add. It has 80 columns and 24 lines,
	// unless Env or Image.Env sets COLUMNS and LINES, and TERM is xterm-256color, unless that is
	// set. Stdin, if there is any, is typed there without an echo, and then the end of the input,
	// once: lines of more than 4095 bytes are cut off, and control characters act as keys. Without
	// any, the command's stdin is empty, and no terminal. A node needs perl or python3 for it, or
	// the attempt ends with CauseNeverStarted. Functions take none.
	TTY bool
	// Dir is the folder that the task runs in: relative to the node's working
	// directory, or absolute. Empty means the working directory.
	Dir string
	// Stdin is what the command reads.
	Stdin []byte
	// Timeout bounds the time that the task runs; waiting for a node does not
	// count. What runs then is asked to end, a command by SIGTERM and a function
	// by its context, and has ten seconds for that. However it ends, the attempt has
	// failed with CauseTimeout; a function's result is dropped. Zero means no limit.
	Timeout time.Duration
	// Retries is how often the task is started again after a failure of its own. The loss of its
	// node does not count: the task is then queued again, up to three times.
	Retries int
	// Outputs are patterns of files that come back into Result.OutputDir however the task ended: with
	// success, an exit code, a signal, a timeout, without memory, cancelled, or by an error or panic
	// of the function. ** matches any folders. They are looked for in the attempt's own directory
	// (GPUTRAIN_SCRATCH, NodeInfo.Scratch) and in Dir, where only files count that changed since
	// the attempt began. Tasks that run at the same time on a node share Dir: let each write to its
	// own directory.
	//
	// After a success, a pattern that matches nothing fails the attempt with CauseOutputs, after the
	// files that match the others have arrived, unless it is marked by [Optional]. After a failure it
	// does not matter, and files that could not come are only added to the text of the error. Nothing
	// comes from a node that was lost, except what SyncEvery has brought before.
	//
	// A task that is cancelled, also by Close, has a minute for its own end on the node and for its
	// files; the cancelled call, and Close, wait for that. A budget that is nearly spent ends tasks a
	// minute and a half before the pool. A pool whose TTL is over waits for nothing.
	Outputs []string
	// SyncEvery brings Outputs also while the task runs, so often: at most one transfer at a time, of
	// the files that have changed. Zero brings them at the end only; the least is a second. A file
	// here is always a whole copy, put into place by a rename. It is what the task had written at that
	// moment: a file that grows may end in the middle of a line, and one that is written over while it
	// is read keeps its last copy here until the next time. So does a file that the task removes.
	SyncEvery time.Duration
	// DropIfCancelled leaves Outputs on the node if the task is cancelled: by the end of its context,
	// by Job.Cancel, by Close, or by another task that is Critical. What SyncEvery has brought stays.
	DropIfCancelled bool
	// Critical cancels the other tasks of the same call (Run, Gather, Stream or Broadcast) when this
	// one has failed, after its Retries, also if that is the loss of its node. A command has half a second
	// between TERM and KILL then, and a function as long to return. Their results fail with
	// CauseCancelled and wrap the failure of this task; the error of the call names that failure first,
	// and counts the cancelled tasks. Outputs still come, for a minute at most. After Attach the tasks
	// of a call still belong together.
	Critical bool
	// StallTimeout ends the attempt, with CauseStalled, after it has made no progress for so long: it reported no greater
	// [Step] and, if it reports none, printed nothing, and no checkpoint of it grew. The stacks of its processes are then in
	// TaskError.Stack. What functions print that run at the same time in one node counts for each of them. The time in which
	// the node cannot be reached does not count. It counts as a failure against Retries, as the end of Timeout does. The least
	// is five seconds, and zero means that nothing ends it. With either, an [EventTask] of state "silent" reports each
	// half an hour in which it printed nothing and reported no step.
	StallTimeout time.Duration
	// Checkpoints says which checkpoints of the task are kept. They need a Name.
	Checkpoints Checkpoints
	// HoldsLease keeps the node's lease while the command runs, even if this program dies or cannot
	// be reached: for a job that is to outlive the program by more than Spec.Lease, and be found
	// again by Attach. The pool's TTL ends it all the same, and without a TTL the machine costs
	// money for as long as the command runs. Functions cannot hold it.
	HoldsLease bool
	// Target says which nodes the task may run on. The zero value is any.
	Target Target
	// Accelerators is how many devices of one node the task has for itself while it runs. It then takes no slot, and
	// starts once as many are free, whatever Spec.Concurrency is: tasks of different sizes share a node, and no two a
	// device. [Compute] says in which order they start. A part of a divided GPU (MIG) is a device, and so is each share of
	// Spec.GPUSharing. A node's devices are listed before its first task, after Image.Setup: if they are divided anew
	// later, tasks do not notice. A node has at most 192 for such tasks.
	//
	// A command sees no other devices: CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES names its own. A function finds them in
	// [NodeInfo].Accelerators, and passes them on to the library or the process that it uses: the functions of a node run in
	// one process, which has one CUDA context for each device, and which those variables cannot divide.
	//
	// If the Spec asks for no accelerator, a node without one lends the task as many of its Spec.Concurrency slots, so that
	// a program which is tried without GPUs runs as it does with them.
	//
	// More devices than any node of the pool can have are [ErrInvalid] at once. Zero means one of the Spec.Concurrency slots, with that slot's part of the devices.
	Accelerators int

	call *call
}

// leastSync is the least Task.SyncEvery.
const leastSync = time.Second

// leastStall is the least Task.StallTimeout: output comes once a second, and step files every ten.
const leastStall = 5 * time.Second

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

// encodable returns why the argument cannot be encoded, or nil.
func (c *call) encodable() error {
	if _, err := c.encode(); err != nil {
		return &Error{Op: "call " + c.function, Kind: ErrInvalid, Err: fmt.Errorf("argument: %w", err)}
	}
	return nil
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
	var f invalid.Faults
	if t.call != nil {
		t.validateCall(&f)
	} else {
		t.validateCommand(&f)
	}
	f.Count("Retries", t.Retries)
	f.Count("Accelerators", t.Accelerators)
	f.Duration("Timeout", t.Timeout)
	t.Target.validate(&f)
	for i, pattern := range t.Outputs {
		if err := attempt.CheckPattern(pattern); err != nil {
			f.Add("Outputs[%d]: %v", i, err)
		}
	}
	f.Duration("StallTimeout", t.StallTimeout)
	if 0 < t.StallTimeout && t.StallTimeout < leastStall {
		f.Add("StallTimeout is %v, and the least is %v", t.StallTimeout, leastStall)
	}
	f.Duration("SyncEvery", t.SyncEvery)
	switch {
	case t.SyncEvery > 0 && len(t.Outputs) == 0:
		f.Add("SyncEvery is set, and there are no Outputs that it could bring")
	case 0 < t.SyncEvery && t.SyncEvery < leastSync:
		f.Add("SyncEvery is %v, and the least is %v", t.SyncEvery, leastSync)
	}
	t.Checkpoints.validate(&f, t.Name)
	if strings.ContainsAny(t.Name, "\x00\n\r") {
		f.Add("Name %q has a newline or NUL", t.Name)
	}
	return f.Err("task")
}

func (t Task) validateCommand(f *invalid.Faults) {
	switch {
	case len(t.Args) > 0 && t.Script != "":
		f.Add("both Args and Script are set")
	case len(t.Args) == 0 && strings.TrimSpace(t.Script) == "":
		f.Add("the command is empty; make tasks with Cmd, Script or Function.Call")
	case len(t.Args) > 0 && t.Args[0] == "":
		f.Add("the command's name is empty")
	}
	for i, a := range t.Args {
		f.Text(fmt.Sprintf("Args[%d]", i), a)
	}
	f.Text("Script", t.Script)
	f.Text("Dir", t.Dir)
	f.Env("Env", "Task.Secrets or Spec.Secrets", t.Env)
	for name, value := range t.Secrets {
		f.EnvName("Secrets", name)
		f.Secret(fmt.Sprintf("Secrets[%q]", name), value)
		if _, twice := t.Env[name]; twice {
			f.Add("%s is in both Env and Secrets", name)
		}
	}
}

func (t Task) validateCall(f *invalid.Faults) {
	if len(t.Args) > 0 || t.Script != "" {
		f.Add("a call of a function has no Args or Script")
	}
	if t.HoldsLease {
		f.Add("a call of a function cannot hold the lease: run a command for that")
	}
	if t.TTY {
		f.Add("a call of a function has no terminal: run a command for that")
	}
	if len(t.Env) > 0 || len(t.Secrets) > 0 || len(t.Stdin) > 0 || t.Dir != "" {
		f.Add("a call of a function takes no Env, Secrets, Stdin or Dir: calls share one process; pass what it needs in its argument")
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

func (t Target) validate(f *invalid.Faults) {
	if rank, by := t.allows.Rank(); by && rank < 0 {
		f.Add("Target is a negative rank")
	}
	for _, l := range t.allows.Labels() {
		if l.Key == "" {
			f.Add("Target has a label without a name")
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

// impossible returns why no node can ever run a task with this Target and so many Accelerators, or nil.
func (p *pool) impossible(t Task) error {
	if t.Accelerators == 0 && t.Target.allows.IsAny() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fleet.Tasks.Impossible(t.Target.allows, t.Accelerators)
}
