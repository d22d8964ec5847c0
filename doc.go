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
// A [Provider] is where machines come from. Only that value changes between
// this machine (providers/local), containers (providers/container) and hosts
// that exist already (providers/ssh): every node is reached over SSH, prepared
// the same way and driven the same way. A [Spec] says how many nodes, of what
// size, and what an [Image] puts on them before they take tasks.
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
//	GPUTRAIN_SLOT          which of the node's slots the task has
//	GPUTRAIN_TASK_INDEX    the task's place in the call
//	GPUTRAIN_ATTEMPT       which attempt this is, from 1
//	GPUTRAIN_SCRATCH       an empty directory of this attempt's own
//
// With Spec.Concurrency above one, tasks that run at the same time on a node
// with several accelerators have devices of their own, by CUDA_VISIBLE_DEVICES
// (NVIDIA) or HIP_VISIBLE_DEVICES (AMD), unless Task.Env or Image.Env decides
// that: the slots divide what there is, and where there are more slots than
// devices, several share one.
//
// A command is over when its process exits. What it left running in its
// process group is ended then; what made itself a session of its own goes on
// until the pool ends. Its stdout and stderr are pipes.
//
// Functions run in one process for each node: the user's own program, which is
// shipped once and serves calls. [Init] must come first in main for that. Where
// the nodes' platform is another one, it is built for that with the Go
// toolchain, or given by [WithWorkerBinary]. A panic is an error with the node's
// stack, and other calls go on. What a function prints is shown and kept as the output
// of a command is. A [Generator] yields values as it goes, a [Consumer] takes them, a
// [Pipe] does both; a fast end waits for a slow one, and all go on where they stopped
// when a connection was cut.
//
// # When something fails
//
// A cut connection fails nothing. A task that fails by itself is started again
// as often as Task.Retries says, after a pause that grows from half a second to
// half a minute, and before those of its call that were not started yet. A node that
// is lost is not the task's failure: what ran there is queued again, in the same
// place, up to [MaxNodeLosses] times, and another machine takes its rank, from the
// next best offer, as often as Spec.MaxReplacements says;
// only a broadcast's share fails with [ErrNodeLost], as does a stream of which something
// was seen. While neither nodes nor provider can be reached it is this program that is
// offline: nothing is given up, and nothing bought.
// When the process that serves functions dies, the calls that ran in it fail as
// such, with its last words, and the next call starts it again. Every attempt has
// an identity and a directory of its own; Task.Outputs takes what this attempt
// wrote, and nothing older. A pattern of it that matches nothing is a failure of the task,
// unless [Optional] marks it.
//
// # What a node is trusted with
//
// A node may be a stranger's machine. It gets the files, arguments and secrets of the tasks
// that it runs, and its word is their result. Nothing that it sends is run, written outside
// the folder that the user named, or followed as a link; [Limits] bound what it can make this
// program keep, and this program's clock decides when a Timeout is over. Spec.RequireKnownHostKey
// rents only if a machine's host key is known before the first contact. SAFETY.md says the
// same of clouds' APIs, other users of this computer and settings files.
//
// # How things end
//
// [Compute.Close] cancels what runs, terminates every machine and returns when
// the provider confirms it, or a [*LeakError] names what is left. Ending the context
// given to [Open] does the same, and so does [With] after a panic. A node that hears
// nothing from this program for Spec.Lease ends its tasks and, where it can,
// itself; Spec.TTL is a second, absolute deadline, at which the pool ends with
// [ErrExpired], and Spec.BudgetUSD a third, with [ErrBudget].
//
// # When the program dies
//
// Whatever is made for a pool is in its ledger, on disk, before it is asked for; see
// [WithStateDir]. So what a killed program leaves is known: [Pools] lists it, [Reap] ends
// it, and [Attach] takes it up, with its nodes, with the tasks that go on there, and with
// the results that were not handed over yet. Tasks outlive their program for the length of
// the lease, those with Task.HoldsLease for as long as they run. SAFETY.md, beside this
// package, says what is guaranteed, by what, and what is not.
//
// # Growing and shrinking
//
// With Spec.MaxNodes a pool is elastic: it grows while tasks wait, ends nodes that have
// had none for Spec.IdleTimeout, and with Spec.Nodes 0 begins and ends with none.
// [Compute.Resize] sets the size by hand. Ranks are always those from 0 on: where a node
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
// their lease has run out, all others until [Reap]. So once a pool is open, return
// the error instead, or use [With]. A program that was killed leaves the same, and so
// does one whose output is cut, as by "| head": SIGPIPE kills it at its next line. With
//
//	signal.Ignore(syscall.SIGPIPE)
//
// it goes on, unread, to its own end. Don't pass SIGPIPE to NotifyContext: then a broken connection
// to one node ends the whole pool. What is left is listed by
//
//	go run github.com/gputrain/gputrain/examples/reap
//
// and ended if a provider's name follows, as in "reap vastai"; a program does the same by
// [Pools] and [Reap].
//
// # Errors
//
// A task's failure is a [*TaskError], which tells exit code, signal, out of
// memory, timeout, cancellation and the loss of the node apart. A provider's is
// an [*Error] that wraps one of the package's Err values; compare with
// errors.Is. A mistake in a Spec or a Task is [ErrInvalid], and is found before
// anything is started.
package gputrain
