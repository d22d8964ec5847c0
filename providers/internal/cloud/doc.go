// Package cloud is the common part of the drivers of clouds that rent machines over HTTP and
// identify each by an ID. A provider writes an [API] with its cloud's calls, and gets a
// [driver.Driver] from [New].
//
// It settles, once for all of them:
//
//   - Launch makes one call for each node, never repeats a call that may have taken effect, and
//     looks for the result of such a call by its node's name.
//   - Describe omits no machine, distinguishes a machine that is too new for the cloud's
//     answers from one that is gone, and reports the offered price if the cloud reports none.
//   - Terminate ends each machine by itself, and a gone machine is a success. A machine that
//     was preempted or has failed, and that the cloud does not find when asked to end it, is
//     gone.
//   - List has everything with gputrain's tag ([pooltag.Tag]), and an error if a read fails.
//   - Failures have one form ([Fail]), and a kind by [StatusKind] if the cloud's own text gives
//     none.
//   - A pool's registered key is distinguished from the user's own ([Keys]).
//
// An API that does more has one of the optional interfaces: [Starter] for machines that are
// made by one call and started by another, [Together] for one call for all nodes, [Ender] for
// ending several at once, [Teller] for facts about a new machine. Clouds whose vendors have
// clients of their own use the parts.
package cloud
