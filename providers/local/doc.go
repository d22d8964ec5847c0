// Package local makes nodes of this machine. It is the default of every example, and lets a
// program be tried before it rents anything.
//
//	pool, err := gputrain.Open(ctx, local.Config{}, gputrain.Spec{Nodes: 4})
//
// It needs only Linux or macOS: no key, no port, no engine, no set-up. It costs nothing.
//
// A node is a home directory of its own and an SSH server inside this program, reached over
// memory. Commands are real processes of this machine with this program's user. A node isolates
// nothing: nodes share the machine's processors, memory, disk and network, and reach each other
// at 127.0.0.1. For isolation use providers/container.
//
// # At a glance
//
//   - GPUs: this machine's: those that nvidia-smi lists.
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
// HOME is the node's own directory, in which commands start. Of this program's environment a
// node sees what a login on the same machine would set: the search path, the language, the time
// zone, the directory of temporary files and the proxies. It does not see the rest, such as an
// exported API key; [Config].PassEnv adds to the list. GPUTRAIN_POOL, GPUTRAIN_NODE and
// GPUTRAIN_HOMES name the pool, the node and the directory of the homes, and
// GPUTRAIN_LOCAL_TOKEN marks every process of the node.
//
// # GPUs
//
// If nvidia-smi is on the search path, Spec.Accelerator can ask for the GPUs that it lists, or
// for those of them that this program's own CUDA_VISIBLE_DEVICES leaves. Each node then has as
// many of its own, by CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, until it ends, and slots share
// those (Spec.Concurrency). Equal GPUs are one kind, also if a display or ECC takes some of one's
// memory. What nvidia-smi says of a GPU that is lost, or needs a reset, is a warning of the offers
// of the others. A GPU that is divided into MIG instances is offered only as those of them that
// CUDA_VISIBLE_DEVICES names by UUID:
//
//	pool, err := gputrain.Open(ctx, local.Config{}, gputrain.Spec{Nodes: 4, Accelerator: accelerators.A100()})
//
// No two nodes have the same GPU, whatever their pools and programs, if these are the same
// user's and have the same [Config].Dir. If none is free, the launch fails with ErrNoCapacity.
// Other programs of this machine may use the GPUs, too. A node of a pool without
// Spec.Accelerator may use them all. GPUs that are divided (MIG) are not offered.
//
// # Other users of this machine
//
// Homes are in a directory that only this user can enter. Files that another user makes in the
// directory for temporary files, and variables in another user's processes, never count as a
// node's: nothing there is read, removed, ended or waited for.
//
// # How a node ends
//
// Terminating a node ends its server, kills every process with its mark, even a detached one,
// and removes its home. If this program is killed before that, the node does so itself once its
// lease is over. Until then another program of this user can find it by List, end it, or take
// it over: a home holds its host key, in a file that only this user can read, so that another
// program can serve it again as the same node. Its detached processes go on.
//
// On macOS the system hides the marks of its own programs, such as /bin/sleep: a detached one
// is then not found.
package local
