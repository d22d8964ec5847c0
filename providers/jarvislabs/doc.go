// Package jarvislabs rents containers and virtual machines from Jarvis Labs.
//
//	pool, err := gputrain.Open(ctx, jarvislabs.Config{}, gputrain.Spec{
//		Accelerator: accelerators.A100(accelerators.Memory(80)), DiskGiB: 200,
//	})
//
// A node is what [Config].Template says: a container with a framework, logged in to as root,
// or with "vm" a machine with a kernel and a Docker of its own. There is neither a Docker image
// of one's own nor an environment to be given: Spec.Image is set up over SSH, as everywhere.
// Machines without GPU, which Jarvis Labs has too, are not rented.
//
// # At a glance
//
//   - GPUs: NVIDIA (L4, A30, A100, H100, H200, RTX PRO 6000) in containers and machines.
//   - Spot: yes: containers, fixed price.
//   - Regions: [Config].Region.
//   - Credentials: JL_API_KEY.
//   - Billing: by the minute, and disk; ended by destroy.
//   - Private network: no.
//   - Ends itself: no: until [gputrain.Reap].
//   - Host key pinned by: first contact.
//   - Tags: no: the name.
//   - Tried against: a fake held to a description derived from clients, as the vendor has none;
//     not live.
//
// # Credentials
//
// The key is [Config].APIKey, else the variable JL_API_KEY. Keys are made in the console
// under Settings, API Keys, and may do all that the account may.
//
// # Regions
//
// IN2 (Noida), IN1 (Chennai) and EU1 each have a host of their own for what is done to
// machines there; [Config].RegionEndpoints adds to the table. A machine in a region that it
// does not have is listed, and not touched. EU1 has one GPU in a node or eight, disks of
// 100 GB at least, and no spot. A spec that asks for more processors or memory than its GPUs
// come with gets a node of more GPUs.
//
// # Names
//
// Machines have no tags: the pool is told by the name alone, which has 40 characters at most.
// A pool's ID has 24. Who renames a machine hides it from [gputrain.Reap]; and a pool's program
// and lease are known to nobody but its own ledger.
//
// # SSH keys
//
// The pool's key is registered with the account when the pool opens, and removed when it
// closes. All keys of the account go into every machine that is made meanwhile, also those of
// other people's pools. An account has 10 keys at most.
//
// # Spot
//
// Containers in India can be had at a fixed lower price. What happens when one is taken back
// is not documented: a spot node that is paused, is being destroyed or has vanished counts as
// preempted, and is replaced.
//
// # Billing
//
// By the minute, from a prepaid wallet. A price is that of the GPUs and of the disk, at
// 0.00014 USD per GB and hour, which is not published and may change. Where the API tells
// prices in another currency they are not known: Spec.AllowUnknownPrice decides. The disk is billed while a
// machine is paused, too: machines are destroyed, never paused. When the wallet is empty Jarvis
// Labs pauses machines, and later deletes their data. File systems are billed by themselves,
// and none is made.
//
// # When the client is gone
//
// Nothing in a container ends its billing: a poweroff there does not exist, and the account's
// key is never put there. A node whose lease has run out ends its tasks, and goes on being billed
// until [gputrain.Reap] or the pool's own program ends it.
//
// # Host keys
//
// Jarvis Labs neither publishes nor takes host keys, and has no call for a node's log: the
// first contact decides. Containers share hosts, and are told apart by port. Whoever stands
// between this program and the node at that moment can take its place, and is given what the
// pool sends, with the secrets of tasks. [gputrain.Spec].RequireKnownHostKey passes over all
// offers.
//
// # Networks and storage
//
// Nodes have no private addresses. Spec.Mounts is not understood.
//
// # Errors
//
//   - ErrAuth: the key is wrong.
//   - ErrQuota: the wallet is empty, or the account has as many SSH keys as it may.
//   - ErrNoCapacity: somebody else was faster; the next offer is taken.
//   - ErrInvalid: there is no such template, or the pool's name is too long.
//
// A create that fails is often answered with 200, and by words alone: those that are not
// known leave open whether there is a machine, which is then looked for by its name.
//
// # What this was checked against
//
// Jarvis Labs publishes no description of its API. This follows its own clients
// (https://github.com/jarvislabsai/jarvislabs, https://github.com/jarvislabsai/JLClient) and
// what others found who use it. No call was made to the live service. Guessed are the words for a
// want of stock or money, how long lists lag, whom a VM lets in (ubuntu, unless it says
// otherwise), and how a spot machine ends.
package jarvislabs
