// Package gputrain opens a pool of machines, runs functions and commands on
// them, and leaves nothing behind.
//
//	pool, err := gputrain.Open(ctx, local.Config{}, gputrain.Spec{Nodes: 4})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer pool.Close()
//	results, err := pool.Gather(tasks...)
//
// # Where it runs
//
// A [Provider] is the source of machines. Only that value differs between this
// machine (providers/local), containers (providers/container) and existing
// hosts (providers/ssh): every node is reached over SSH, prepared the same way
// and driven the same way. A [Spec] sets the number and size of the nodes, and
// an [Image] what they need before they take tasks: a container image to run in, if it
// names one (Image.Docker).
//
// # What runs
//
// A [Task] is a command ([Cmd]), shell text ([Script]), or a call of one of the
// program's own functions ([Func]). [Compute.Run] runs one, [Compute.Gather] many, in
// order, [Compute.Stream] yields them as they finish, [Compute.Broadcast] runs one on
// every node and [Compute.Start] in the background. Calls that run at the same time take
// turns at the nodes: [Compute] says how.
//
// Commands need nothing on the node but a POSIX sh. They run detached from the
// connection: when that is cut, it is opened again, and output goes on where it
// stopped. Each runs in the node's working directory, which all tasks of the
// node share, and finds in its environment, beside what Image.Env says:
//
//	GPUTRAIN_POOL          the pool's ID
//	GPUTRAIN_NODE          the node's name
//	GPUTRAIN_NODE_RANK     index of the node in the pool
//	GPUTRAIN_RANK          index of the node among those of the call
//	GPUTRAIN_NODES         how many those are: 1 but for Broadcast
//	GPUTRAIN_MASTER_ADDR   address of the first of them
//	GPUTRAIN_SLOT          a number that no other task has that runs on the node:
//	                       which of its slots, or Spec.Concurrency and more for
//	                       a task with Task.Accelerators
//	OMP_NUM_THREADS        if several tasks, or processes of a training, share the
//	                       node: its share of the processors
//	GPUTRAIN_TASK_INDEX    the task's place in the call
//	GPUTRAIN_ATTEMPT       which attempt this is, from 1
//	GPUTRAIN_SCRATCH       an empty directory of this attempt's own
//	GPUTRAIN_STEPS         a directory for files that say how far it has come:
//	                       see [Step]
//	GPUTRAIN_CHECKPOINTS   with Task.Checkpoints: the folder of its checkpoints
//	GPUTRAIN_RESUME        the checkpoint there that it goes on from, or empty
//	GPUTRAIN_NOTICE        a file that appears, with the seconds that are left,
//	                       when the provider takes the node back
//
// The processes of a training have more: see [Launcher].
//
// With Spec.Concurrency above one, tasks that run at the same time on a node
// with several accelerators have devices of their own, by CUDA_VISIBLE_DEVICES
// (NVIDIA) or HIP_VISIBLE_DEVICES (AMD), unless Task.Env or Image.Env decides
// that: the slots divide the devices, and if there are more slots than
// devices, several share one. A task with Task.Accelerators has as many devices
// of its own, whatever the slots are: [Compute] says how the two share a node.
//
// A command is over when its process exits. Processes that it left in its
// process group are ended then; a process that has started its own session goes
// on until the pool ends. Its stdout and stderr are pipes.
//
// Functions run in one process for each node: the user's own program, which is shipped once and
// serves calls. [Init] must come first in main for that. If the nodes have another platform, the
// program is built for it with the Go toolchain, or given by [WithWorkerBinary]. A panic is an
// error with the node's stack, and other calls go on. What a function prints is shown and kept as
// the output of a command is. A [Generator] yields values as it goes, a [Consumer] takes them, a
// [Pipe] does both; the faster side waits for the slower one, and after a cut connection all go on
// where they stopped.
//
// [Compute.Dial], [Compute.Forward] and [Compute.Shell] reach a node beside its tasks, through the
// pool's SSH connection, and [Compute.WriteSSHConfig] lets ssh, scp, rsync and VS Code do so.
//
// # Training on several nodes
//
// [Compute.Train] runs a program on several nodes at once, as a gang: all of it starts, or nothing does. If any part of it fails,
// all of it ends and starts again from the newest checkpoint, as often as Training.Restarts says. Another node takes the place of
// one that was lost. Each such start is a [GangAttempt]. A [Launcher] starts the processes: gputrain itself, torchrun or mpirun. The
// program can also be a function that each node calls once. It reports its progress by a line, "gputrain: step=120/1000
// loss=2.31" (see [Step]), and renames each finished checkpoint to $GPUTRAIN_CHECKPOINTS/step-120 (see [Checkpoints]). Without
// progress for Training.StallTimeout, or Task.StallTimeout, it ends with [ErrStalled] and the stacks of its processes. With
// Spec.Network, only machines that reach each other are rented. Nodes that would meet at public addresses are refused, unless
// Training.AllowPublicNetwork allows it.
//
// A pool with accelerators samples them and reports their faults: see [EventUsage] and [Usage]. A fault that ends a task is its
// [CauseAccelerator].
//
// # When something fails
//
// A cut connection fails nothing. A task that fails by itself is started again as often as
// Task.Retries says, after a pause that grows from half a second to half a minute, and before those
// of its call that were not started yet. The loss of a node is not the task's failure: what ran
// there is queued again, in the same place, up to three times, and another machine takes its rank,
// from the next best offer, as often as Spec.MaxReplacements says. Only a share of a broadcast, and
// a stream that a value has gone through, fail with [ErrNodeLost]. If neither nodes nor provider
// can be reached, this program takes itself to be offline: it gives up no node and buys none. If
// the process that serves functions dies, the calls that ran in it fail with [CauseWorkerLost] and
// the last lines of its stderr, and the next call starts it again. Every attempt has an ID and a
// directory of its own; Task.Outputs brings back what this attempt wrote, and nothing older, however
// it ended, and Task.SyncEvery while it runs, so that those of a node that is lost are here. After a
// success a pattern that matches nothing fails the task, unless [Optional] marks it. The failure of a
// task that is Critical cancels the rest of its call, such as the other shares of a broadcast.
//
// # What a node is trusted with
//
// A node may be a machine that others control. It gets the files, arguments and secrets of the
// tasks that it runs, and it decides what their results are. Nothing that it sends is run, written
// outside the folder that the user named, or followed as a link; [Limits] bounds what it can make
// this program keep, and this program's clock decides when a Timeout is over.
// Spec.RequireKnownHostKey rents only machines whose host key is known before the first contact.
// SAFETY.md covers clouds' APIs, other users of this computer, of an account and of a cluster, and
// settings files; SECURITY.md has the short of it.
//
// # How things end
//
// [Compute.Close] cancels what runs, terminates every machine and returns when
// the provider confirms it, or a [*LeakError] names what is left. Ending the context
// given to [Open] does the same, and so does [With] after a panic. A node that hears
// nothing from this program for Spec.Lease ends its tasks and, if it can,
// itself; Spec.TTL is a second, absolute deadline, at which the pool ends with
// [ErrExpired], and Spec.BudgetUSD a third, with [ErrBudget].
//
// # When the program dies
//
// Every machine and resource of a pool is in its ledger, on disk, before a provider is asked
// for it; see [WithStateDir]. So what a killed program leaves is known: [Pools] lists it,
// [Reap] ends it, and [Attach] resumes it, with its nodes, with the tasks that go on there,
// and with the results that were not handed over yet. Tasks outlive their program for the length of
// the lease, those with Task.HoldsLease for as long as they run. SAFETY.md, beside this
// package, says what is guaranteed, by what, and what is not.
//
// [Compute.Detach] leaves a pool on purpose, in the same way: for a program that ends before its tasks do.
//
// At many clouds machines cannot end themselves. There [Open] starts this program once more, as the
// pool's guardian, which [Init] serves: if this program dies, the guardian waits for the end of the
// lease or TTL, and ends the pool, unless it was attached to. [WithoutGuardian] declines it. [Guard]
// does the same for all pools of some providers, on a machine that is always on.
//
// # Images that are ready
//
// [Bake] prepares one machine for a Spec, has the provider make an image of it, and ends it. Nodes of
// later pools with the same Spec.Image start from that image, with their phases done. It outlives all
// pools, and its storage is billed: [BakedImages] lists what there is, and [DeleteBaked] deletes it.
//
// # Growing and shrinking
//
// With Spec.MaxNodes a pool is elastic: it grows while tasks wait, ends nodes that have
// had none for Spec.IdleTimeout, and with Spec.Nodes 0 begins and ends with none.
// [Compute.Resize] sets the size by hand. Ranks are always those from 0 on: if a node
// goes, the last one gets its rank.
//
// # Signals and log.Fatal
//
// The first SIGINT, SIGTERM or SIGHUP belongs to the program. These two lines make
// Ctrl-C, and a terminal that is closed, a clean end:
//
//	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
//	defer stop()
//
// log.Fatal and os.Exit run no deferred Close: machines that can end themselves go on until
// their lease has run out, all others until the pool's guardian has waited as long, or until
// [Reap]. So once a pool is open, return the error instead, or use [With]. A program that was killed leaves the same, and so
// does one whose output is cut, as by "| head": SIGPIPE kills it at its next line. With
//
//	signal.Ignore(syscall.SIGPIPE)
//
// it goes on to its own end, without its output. Don't pass SIGPIPE to NotifyContext: then a broken
// connection to one node ends the whole pool. What is left is listed by
//
//	go run github.com/gputrain/gputrain/examples/pools
//
// and ended by "pools end left"; a program does the same by [Pools] and [Reap].
//
// # Errors
//
// A task's failure is a [*TaskError], which distinguishes exit code, signal, out of
// memory, timeout, cancellation and the loss of the node. A provider's is
// an [*Error] that wraps one of the package's Err values; compare with
// errors.Is. A mistake in a Spec or a Task is [ErrInvalid], and is found before
// anything is started.
package gputrain
