// Package jarvislabs rents containers and virtual machines from Jarvis Labs.
//
//	pool, err := gputrain.Open(ctx, jarvislabs.Config{}, gputrain.Spec{
//		Accelerator: accelerators.A100(accelerators.Memory(80)), DiskGiB: 200,
//	})
//
// [Config].Template chooses the kind of node: a container with a framework, whose login user is
// root, or with "vm" a machine with its own kernel and Docker. The API takes neither a Docker
// image nor an environment: Spec.Image is set up over SSH, as everywhere. Jarvis Labs' machines
// without GPU are not rented.
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
//   - Tags: no: the name, with creation and TTL.
//   - Tried against: a fake held to a description derived from clients, as the vendor has none;
//     not live.
//
// # Credentials
//
// The key is [Config].APIKey, else the variable JL_API_KEY. Keys are made in the console under
// Settings, API Keys, and have all rights of the account.
//
// # Regions
//
// IN2 (Noida), IN1 (Chennai) and EU1 each have a host of their own for calls about machines
// there; [Config].RegionEndpoints adds to the table. A machine in a region outside the table is
// listed, but not touched. EU1 has nodes with one GPU or eight, disks of at least 100 GB, and
// no spot. A GPU comes with a number of processors and an amount of memory: a spec that asks for
// more of them must allow more GPUs (accelerators.AtLeast), and gets no node otherwise.
//
// # Names
//
// Machines have no tags: only the name identifies the pool. It has 40 characters at most, and a
// pool's ID has 24. If there is room, it also holds when the machine was made, and when the pool's
// TTL ends: there is for a pool's ID of up to 15 characters. Renaming a machine hides it from
// [gputrain.Reap]. Only the ledger of a pool knows its program and lease.
//
// # SSH keys
//
// The pool's key is registered with the account when the pool opens, and removed when it
// closes. Every machine made meanwhile gets all keys of the account, including machines of
// other people's pools. An account has 10 keys at most.
//
// # Spot
//
// Containers in India can be rented at a fixed lower price. Preemption is not documented: a
// spot node that is paused, is being destroyed or has vanished counts as preempted, and is
// replaced.
//
// # Billing
//
// By the minute, from a prepaid wallet. A price includes the GPUs and the disk, at 0.00014 USD
// per GB and hour, which is not published and may change. Traffic is free, as far as is known.
// Prices in another currency, such as INR, are converted at the rate of the variable
// GPUTRAIN_USD_RATES, or a round figure, and the offer has a warning that says so; those in a
// currency without a rate are unknown. The wallet's money is known before a launch, and taken to be in
// the currency of the prices. The disk of a paused machine is
// billed, too: gputrain destroys machines and never pauses them. When the wallet is empty,
// Jarvis Labs pauses machines, and later deletes their data. File systems are billed by
// themselves, and gputrain makes none.
//
// # When the client is gone
//
// Nothing in a container can end its billing: it has no poweroff, and the account's key is
// never put there. A node whose lease has run out ends its tasks, and is billed until
// [gputrain.Reap] or the pool's own program ends it. Reap does by the ledger of the computer, and
// from any other once the TTL is over, if the machine's name holds that.
//
// # Host keys
//
// Jarvis Labs neither publishes nor accepts host keys, and has no call for a node's log: the
// first contact decides. Containers share hosts and differ by port. An attacker between this
// program and the node at that moment can take its place, and receives everything that the pool
// sends, including the secrets of tasks. [gputrain.Spec].RequireKnownHostKey rejects all
// offers.
//
// # Networks and storage
//
// Nodes have no private addresses. Spec.Mounts is not supported.
//
// # Errors
//
//   - ErrAuth: the key is wrong.
//   - ErrBalance: the wallet is empty.
//   - ErrQuota: the account has reached its limit of SSH keys or machines.
//   - ErrNoCapacity: another customer was faster; the pool takes the next offer.
//   - ErrInvalid: there is no such template, or the pool's name is too long.
//
// A failed create is often answered with 200 and a text. An unknown text leaves open whether a
// machine exists; the driver then looks for its name.
//
// # What this was checked against
//
// Jarvis Labs publishes no description of its API. This follows its own clients
// (https://github.com/jarvislabsai/jarvislabs, https://github.com/jarvislabsai/JLClient) and
// reports of other users. No call was made to the live service. Guessed are the texts for a
// lack of stock or money, the lag of lists, the login user of a VM (ubuntu, unless the API
// names another), and the end of a spot machine.
package jarvislabs
