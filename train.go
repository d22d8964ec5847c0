package gputrain

import (
	"cmp"
	"fmt"
	"reflect"
	"time"

	"github.com/gputrain/gputrain/internal/invalid"
	"github.com/gputrain/gputrain/internal/launcher"
	"github.com/gputrain/gputrain/internal/letgo"
	"github.com/gputrain/gputrain/internal/training"
)

// A Training is a program that runs on several nodes at once, as a gang: all of it starts or nothing does. When any
// part of it fails, all of it ends and, as far as Restarts allow, starts again from the newest checkpoint, on another
// node in place of one that was lost. Only Task must be set: the rest has zero values that train safely on every node.
type Training struct {
	// Task is the program: a command or a script that each process runs or, with [Torchrun] and [MPI], each node's
	// launcher, or a call of a function, which each node makes once. Its Timeout bounds the time that one attempt runs. Its Name
	// names the training: [Attach], and then Train with the same name, goes on with it. Retries, Critical, Accelerators, TTY
	// and StallTimeout are [ErrInvalid]: a gang has the whole of its nodes, Restarts, and a StallTimeout of its own.
	Task Task
	// Launcher says how the processes are started. Zero is [Processes].
	Launcher Launcher
	// Nodes is the number of nodes. Zero means all of Spec.Nodes. Ready nodes beyond those are spares.
	Nodes int
	// ProcessesPerNode is how many processes a node runs. Zero is one for each of its accelerators, or 1 if it has
	// none. A function runs once per node.
	ProcessesPerNode int
	// Restarts is how often the gang starts again after a failure of its own: an exit code, a signal, a stall. The loss of a node
	// or of an accelerator does not count, nor does a failure before the first step that may be its checkpoint's. Three attempts
	// in a row that get no further end the training, with [ErrNoProgress], whatever failed.
	Restarts int
	// AllowPublicNetwork allows a gang of several nodes to meet at public addresses. Its processes listen at ports that ask for no
	// password (torch's, NCCL's, gloo's, JAX's, MPI's): who reaches them can join, read and change the training, and make its processes
	// run code. What they send is not encrypted. False refuses such a gang, with [ErrUnsupported], before anything of it starts. Nodes
	// of [NetworkPrivate], and hosts at addresses of a private network, need no permission.
	AllowPublicNetwork bool

	// StartTimeout bounds the time from the start of an attempt until it works. Once an attempt of the training has reported a step, a
	// later one works when it reports one too. Before that it works when any of its processes has printed something: in most
	// programs only the first process prints. Zero means 15 minutes, and -1 no bound.
	StartTimeout time.Duration
	// StallTimeout bounds the time without a greater step, from an attempt's first step on. A checkpoint that grows counts too.
	// Until the first step, and so for a program that reports none, it bounds the time without output, and StartTimeout takes its
	// place if that is longer: imports and downloads take their time. It also bounds how long processes run on after another
	// one has ended with success. Zero means 30 minutes or, with steps, ten times the slowest of the last 20, but at least ten
	// minutes. -1 means no bound.
	StallTimeout time.Duration
	// IdleTimeout bounds the time that an accelerator of the gang does nothing: it is used for less than 5 percent, and its
	// memory does not change. Accelerators that cannot be sampled count as busy. Zero means 30 minutes, and -1 no bound.
	IdleTimeout time.Duration
	// Check is a command or a script that the gang must pass before its first attempt, and each later node before its own. It is
	// started as Task is. The zero value checks nothing beyond what gputrain checks itself.
	Check Task
}

// A Launcher says how the processes of a [Training] are started, and by which variables they find each other. Every
// process also has GPUTRAIN_TRAINING, GPUTRAIN_ATTEMPT, GPUTRAIN_MASTER_PORT, GPUTRAIN_PROCESSES (on each node),
// GPUTRAIN_WORLD_SIZE, GPUTRAIN_HOSTFILE and what other tasks have. Task.Env wins over all of it.
type Launcher int

const (
	// Processes starts each process itself, with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR
	// and MASTER_PORT, which torch.distributed reads, and TF_CONFIG. Of JAX's variables, jax.distributed.initialize reads
	// JAX_COORDINATOR_ADDRESS itself; num_processes=int(os.environ["JAX_NUM_PROCESSES"]) and JAX_PROCESS_ID are its arguments.
	Processes Launcher = iota
	// Torchrun runs the command once per node. The command is torchrun, or runs it, and finds the gang in torchrun's own PET_
	// variables, so that it needs no flags. Its rendezvous is static and it restarts nothing itself. A command that is seen to be
	// torchrun, accelerate launch, deepspeed or mpirun under a launcher in which each would be a gang of its own is [ErrInvalid].
	Torchrun
	// MPI runs mpirun of Open MPI on the first node, and the command in each process that mpirun starts. No node needs SSH to
	// another one. Each process also has the variables of torch.distributed.
	MPI
)

// String returns the launcher in lower case: "torchrun".
func (l Launcher) String() string { return nameOf(l, "processes", "torchrun", "mpi") }

// A TrainResult describes a training that has ended.
type TrainResult struct {
	// Ranks are the results of the last attempt. Result.Index is the rank of a process or, with Torchrun and MPI, of the node
	// in the gang.
	Ranks []Result
	// Attempts are the starts of the gang, in order.
	Attempts []GangAttempt
	// Step is the step of Checkpoint. Without one, or if its name has no step, it is the last step that was reported, which
	// Attempts have of each start.
	Step int64
	// Checkpoint is the newest checkpoint on this computer: a folder. Empty means that there is none.
	Checkpoint string
	// Elapsed is the time since the training began, also if an earlier program began it.
	Elapsed time.Duration
	// CostUSD is the cost of the nodes while the gang had them, in this program.
	CostUSD Price
}

// A GangAttempt is one start of a gang.
type GangAttempt struct {
	// Number counts from 1.
	Number int
	// Nodes are the gang's nodes by their rank in the gang.
	Nodes []Node
	// From is when its processes were released to run, all together, and To when all of them had ended. Both are zero if
	// they never were.
	From, To time.Time
	// Resumed is the name of the checkpoint from which it went on, such as "step-120", or empty.
	Resumed string
	// FirstStep and LastStep are the first and the greatest step that it reported, or 0.
	FirstStep, LastStep int64
	// Err is why it failed, mostly a [*TrainError], or nil. An attempt of an earlier program has only the text.
	Err error
}

// A TrainError says why an attempt failed. errors.Is finds [ErrStalled], [ErrNodeLost] and the like in it.
type TrainError struct {
	// Attempt is the attempt's number.
	Attempt int
	// Failures are those of its processes or nodes. The first is the root cause; those that only followed from it have CausePeer.
	// If nothing tells which process a gang waited for that stalled, the first is that of the gang as a whole, with all stacks.
	Failures []*TaskError
	// Err says more about the end of the training, such as [ErrNoProgress], if there is more. It may be nil.
	Err error
}

// Error names the attempt, the root cause, and how many others followed from it or failed by themselves.
func (e *TrainError) Error() string {
	text := fmt.Sprintf("attempt %d", e.Attempt)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if len(e.Failures) == 0 {
		return text
	}
	text += ": " + e.Failures[0].Error()
	others, peers := 0, 0
	for _, f := range e.Failures[1:] {
		if others++; f.Cause == CausePeer {
			peers++
		}
	}
	if peers > 0 {
		text += fmt.Sprintf("\n%s followed from it", count(peers, "other failure"))
	}
	if own := others - peers; own > 0 {
		text += fmt.Sprintf("\n%s did not follow from it", count(own, "other failure"))
	}
	return text
}

// Unwrap returns Err and the root cause.
func (e *TrainError) Unwrap() []error {
	var errs []error
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	if len(e.Failures) > 0 {
		errs = append(errs, e.Failures[0])
	}
	return errs
}

// Train runs a program on several nodes at once. It returns when every process has ended with exit code 0, or when the
// training has failed for good: the error is then mostly a [*TrainError], and the result has what is known all the same.
//
// It waits until as many nodes are ready and the tasks that run there have ended; meanwhile no other task starts on them, and none
// does until Train returns. An elastic pool grows for it.
//
// If the context of [Compute.WithContext] ends, so does the training. Train returns when no process of it is left, but it waits only as
// long as all of its nodes answer, and for three seconds at most: half a second after the last answer, or once the three seconds are over,
// it returns without the results of the processes, and without the attempt that has not ended. What is left of the training ends without
// the caller then, and its Outputs and its last checkpoint still come. Until that is done, in some minutes at most if a node does not answer, its nodes
// take no other task, a Train of the same name waits, and so does Close.
//
// If this program dies, the processes go on as other tasks do. After [Attach], Train with a Training whose Task has the same
// Name follows them from where they are; until then their nodes take no tasks. Calls of functions, and what mpirun runs, are not
// followed: their attempt ends, which does not count, and the next one begins.
func (c *Compute) Train(t Training) (TrainResult, error) {
	p := c.p
	if err := c.check(); err != nil {
		return TrainResult{}, err
	}
	t.Task.Name = t.name()
	t.Task.Checkpoints = t.Task.Checkpoints.local()
	if err := t.validate(p); err != nil {
		return TrainResult{}, err
	}
	b := c.newBatch()
	defer b.leave()
	tasks, err := b.resolved(t.Task, t.Check)
	if err != nil {
		return TrainResult{}, err
	}
	t.Task, t.Check = tasks[0], tasks[1]
	r, err := newTrainRun(b.ctx, p, t)
	if err != nil {
		return TrainResult{}, err
	}
	b.caller.While(training.Answering(r.host))
	var result TrainResult
	err, ok := letgo.Do(&b.caller, p.background.Go, func() error {
		defer p.running.Done()
		var err error
		result, err = r.run(b.ctx)
		return err
	})
	if !ok {
		return r.leave(b.ctx)
	}
	return result, err
}

// validate returns an error that is [ErrInvalid] if anything is wrong with the training.
func (t Training) validate(p *pool) error {
	var f invalid.Faults
	check := func(what string, task Task) {
		err := task.Validate()
		if err == nil {
			err = p.given.check(task)
		}
		if err != nil {
			f.Add("%s: %v", what, err)
		}
		for _, field := range []struct {
			name string
			set  bool
		}{{"Retries", task.Retries != 0}, {"Critical", task.Critical}, {"Accelerators", task.Accelerators != 0}, {"TTY", task.TTY}} {
			if field.set {
				f.Add("%s.%s is set: a gang has the whole of its nodes, and starts again by Restarts", what, field.name)
			}
		}
		if err := launcher.Fits(launcher.Launcher(t.Launcher), task.Args, task.Script, t.nodes(p), t.ProcessesPerNode, cmp.Or(invalid.Dotted(task.Env, task.Secrets), invalid.Dotted(p.spec.Image.Env, p.spec.Secrets))); err != nil {
			f.Add("%s: %v", what, err)
		}
		if task.StallTimeout != 0 {
			f.Add("%s.StallTimeout is set: use Training.StallTimeout", what)
		}
	}
	check("Task", t.Task)
	if t.Check.call != nil {
		f.Add("Check is a call of a function; it is a command or a script")
	} else if !reflect.ValueOf(t.Check).IsZero() {
		check("Check", t.Check)
		if len(t.Check.Outputs) > 0 || !t.Check.Checkpoints.IsZero() || t.Check.HoldsLease {
			f.Add("Check has Outputs, Checkpoints or HoldsLease: nothing is kept of it")
		}
	}
	if t.Launcher < Processes || t.Launcher > MPI {
		f.Add("Launcher is %v; use Processes, Torchrun or MPI", t.Launcher)
	}
	f.Count("Nodes", t.Nodes)
	f.Count("ProcessesPerNode", t.ProcessesPerNode)
	f.Count("Restarts", t.Restarts)
	for _, timeout := range []struct {
		name string
		d    time.Duration
	}{{"StartTimeout", t.StartTimeout}, {"StallTimeout", t.StallTimeout}, {"IdleTimeout", t.IdleTimeout}} {
		if timeout.d >= 0 {
			f.Duration(timeout.name, timeout.d)
		} else if timeout.d != -1 {
			f.Add("%s is %v; -1 turns it off", timeout.name, timeout.d)
		}
	}
	p.mu.Lock()
	most := p.fleet.Tasks.Most()
	p.mu.Unlock()
	if t.nodes(p) > most {
		f.Add("Nodes is %d, and the pool has %d at most", t.nodes(p), most)
	}
	if t.Task.call != nil {
		if t.Launcher != Processes || t.ProcessesPerNode > 1 {
			f.Add("a function runs once per node, without a Launcher")
		}
		for _, ready := range []func() error{
			func() error { return t.Task.call.refused },
			func() error { return functionReady(t.Task.call.function) },
			t.Task.call.encodable,
		} {
			if err := ready(); err != nil {
				return err
			}
		}
	}
	return cmp.Or(f.Err("training"), p.impossible(t.Task))
}

// nodes returns how many nodes the training has.
func (t Training) nodes(p *pool) int { return cmp.Or(t.Nodes, p.spec.Nodes, p.spec.maxNodes()) }

func (t Training) name() string { return cmp.Or(t.Task.Name, "training") }
