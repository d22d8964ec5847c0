// Package local makes nodes of this machine: the default of every example, and
// what a program is tried on before it rents anything.
//
//	pool, err := gputrain.Open(ctx, local.Config{}, gputrain.Spec{Nodes: 4})
//
// Nothing is needed but Linux or macOS: no key, no port, no engine, no set-up.
// Nothing is billed.
//
// A node is a home directory of its own and an SSH server inside this program,
// reached over memory. Commands are real processes of this machine, run as the
// user who runs this program, so that a node is a place to work, not a wall
// around it: nodes share the machine's processors, memory, disk and network,
// and reach each other at 127.0.0.1. For walls take providers/container.
//
// # At a glance
//
//   - GPUs: none: processes on this machine, each with a home directory of its own.
//   - Spot: no.
//   - Regions: none.
//   - Credentials: nothing.
//   - Billing: free.
//   - Private network: yes.
//   - Ends itself: yes, by its lease.
//   - Host key pinned by: the pool's own key, kept in the home.
//   - Tags: yes: home and process.
//   - Tried against: real processes.
//
// # What a node sees
//
// HOME is the node's own directory, where commands start. Of this program's
// environment a node sees what a login on the same machine would set: the
// search path, the language, the time zone, where temporary files and the
// internet are. It does not see the rest, such as an exported API key;
// [Config].PassEnv adds to the list. GPUTRAIN_POOL, GPUTRAIN_NODE and
// GPUTRAIN_HOMES name the pool, the node and the directory of the homes, and
// GPUTRAIN_LOCAL_TOKEN marks every process that belongs there.
//
// # Other users of this machine
//
// Homes are in a directory that only this user can enter. What another user makes in
// the directory for temporary files, or writes into the environment of a process, is
// not taken for a node's: nothing there is read, removed, ended or waited for.
//
// # How a node ends
//
// Terminating a node ends its server, kills every process marked as its own,
// also one that detached itself, and removes its home. If this program is
// killed before it can do that, the node does so itself once its lease is over.
// Until then another program of this user can find it by List, end it, or take it
// over: a home holds its host key, in a file that only this user can read, so
// that it can be served again as the same node, and what detached itself there
// goes on.
//
// On macOS the system hides the marks of its own programs, such as /bin/sleep:
// one that detached itself is then not found.
package local
