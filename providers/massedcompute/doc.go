// Package massedcompute rents virtual machines from Massed Compute, on demand and spot, by
// its VM API.
//
//	pool, err := gputrain.Open(ctx, massedcompute.Config{}, gputrain.Spec{
//		Accelerator: accelerators.L40(), Nodes: 2, Allocation: gputrain.SpotIfAvailable,
//	})
//
// A node is a machine with whole GPUs, a disk of its own and a public address with all ports
// open. Its disk is as large as the product says, whatever Spec.DiskGiB is; one that is too
// small for the spec is not taken.
//
// # At a glance
//
//   - GPUs: NVIDIA (A30 to H200 NVL, RTX) by product.
//   - Spot: yes: products of their own.
//   - Regions: placed by the cloud.
//   - Credentials: MASSED_API_KEY, MASSED_COMPUTE_API_KEY.
//   - Billing: by the minute; ended by terminate.
//   - Private network: no.
//   - Ends itself: no: until [gputrain.Reap].
//   - Host key pinned by: first contact.
//   - Tags: no: the name.
//   - Tried against: a fake held to the vendor's API description; not live.
//
// # Credentials
//
// The key is [Config].APIKey, else the variable MASSED_API_KEY, else MASSED_COMPUTE_API_KEY,
// which the vendor's own tools read. Keys are made as
// https://vm-docs.massedcompute.com/docs/settings/api-settings says; one for reading only can
// list offers, and not launch. It is never on a node. The API does not name the account: it
// is told from others by a digest of its key, so that a new key is another account as far as
// ledgers go. Close pools before changing it.
//
// # Where nodes are
//
// Massed Compute places machines itself: the region of every offer is "any", and two nodes of
// a pool may be in different cities, without a private network. Where one is, is told once
// it exists. A spec that names another region finds no offers.
//
// # Spot
//
// Spot machines are products of their own, whose names have _spot or _discount, or whose
// description says so; some kinds of GPU have them. How a machine is taken back, and with
// what notice, is not documented. One that vanishes counts as preempted.
//
// # Readiness
//
// A machine takes two to ten minutes. It runs once its state says so and its system has
// booted by the API's second word, and has an address.
//
// # Billing
//
// By the minute, from launch until it is terminated. There is no stopping, and a machine that
// shuts itself down goes on being billed. Terminating destroys all data. Automatic recharge
// must be configured, or nothing can be launched.
//
// # When the client is gone
//
// Nothing on a machine can end its billing, as only the account's key could. [gputrain.Reap]
// does, by the ledger of the computer. There are no tags: a machine is known by its name,
// "gputrain-" with its pool and rank, and neither its program nor its lease are on it, so that
// from another computer nothing is ended; a key by "gputrainXpoolX" and the pool, as names of
// keys have letters and digits only. Who renames a machine hides it from all but the ledger
// that has it.
//
// # Logging in
//
// The pool's key is registered with the account and named at launch. The password that each
// machine has, too, is locked at its first boot unless [Config].KeepPassword is set, and never
// used. Host keys are neither published nor taken, and what a machine's command prints cannot
// be read: the first contact decides. Whoever stands between this program and the machine at
// that moment can take its place, and is given what the pool sends, with the secrets of tasks.
// [gputrain.Spec].RequireKnownHostKey passes over all offers.
//
// # Errors
//
//   - ErrAuth: the key is wrong, or for reading only.
//   - ErrQuota: the account may not have more, or its recharge amount or threshold is not set in
//     its billing settings.
//   - ErrNoCapacity: somebody else was faster; the next offer is taken.
//   - ErrInvalid: such as an image that does not fit the product.
//
// The API's errors have no codes: their kinds are read from their texts.
//
// # What was verified
//
// The driver was written after the vendor's description of the VM API, version 1.0.0
// (https://vm-docs.massedcompute.com/api/v1), with the answers that a shipping client is known to
// get instead of the described ones. Every call is held against that description, at a fake
// of the API. None was made against Massed Compute itself.
package massedcompute
