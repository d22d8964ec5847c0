// Package cloud is the part of a driver that is the same for every cloud which rents one
// machine by one call over HTTP and knows it by an ID. A provider writes an [API], which
// is what its cloud's calls are and mean, and gets a [gputrain.Driver] from [New].
//
// What is settled here, once:
//
//   - Launch makes one call for each node, never repeats one that may have had its effect,
//     and looks for what such a call may have made by its node's name.
//   - Describe leaves out nothing, knows a machine that is too new for the cloud's reads
//     from one that is gone, and tells the price that was offered where the cloud tells none.
//   - Terminate ends each machine by itself, and one that is gone is a success. A machine that was
//     preempted or has failed, and that the cloud does not find when it is asked to end it, is gone.
//   - List has what carries gputrain's mark ([Tag]), and an error where a read fails.
//   - Failures have one form ([Fail]), and a kind by [StatusKind] where the cloud's own words say none.
//   - A key that is registered for a pool is known from the user's own ([Keys]).
//
// Clouds that do it otherwise (one launch for many nodes, prices that are bid) have drivers
// of their own, and use the parts.
package cloud
