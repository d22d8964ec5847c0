// Package massedcompute rents virtual machines from Massed Compute, on demand and spot, by
// its VM API.
//
//	pool, err := gputrain.Open(ctx, massedcompute.Config{}, gputrain.Spec{
//		Accelerator: accelerators.L40(), Nodes: 2, Allocation: gputrain.SpotIfAvailable,
//	})
//
// A node is a machine with whole GPUs, a disk of its own and a public address with all ports
// open. The product determines the size of the disk, whatever Spec.DiskGiB is; a product whose
// disk is too small for the spec is not offered.
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
//   - Tags: no: the name, with creation and TTL.
//   - Tried against: a fake held to the vendor's API description; not live.
//
// # Credentials
//
// The key is [Config].APIKey, else the variable MASSED_API_KEY, else MASSED_COMPUTE_API_KEY,
// which the vendor's own tools read.
// https://vm-docs.massedcompute.com/docs/settings/api-settings describes how to make one; a
// read-only key can list offers, but not launch. It is never on a node. The API does not name
// the account: a digest of the key identifies it, so that a new key is another account for
// ledgers. Close pools before changing it.
//
// # Where nodes are
//
// Massed Compute places machines itself: the region of every offer is "any", and two nodes of a
// pool may be in different cities, without a private network. The API reports the place once
// the machine exists. The country is that of all regions that have the product, by their names
// ("us-central-1"). A spec that names a region finds no offers.
//
// # Spot
//
// Spot machines are products of their own, marked by _spot or _discount in the name or by the
// description; some kinds of GPU have them. Preemption and its notice are not documented. A
// machine that vanishes counts as preempted.
//
// # Readiness
//
// A machine takes two to ten minutes. It runs once the API reports that state and a booted
// system, and the machine has an address.
//
// # Billing
//
// By the minute, from launch until it is terminated. Machines cannot be stopped, and one that
// shuts itself down is still billed. Terminating destroys all data. Launches need automatic
// recharge in the account's settings; the API does not report the balance. Prices include the
// disk, and traffic, as far as is known.
//
// # When the client is gone
//
// Nothing on a machine can end its billing, as only the account's key could. [gputrain.Reap]
// does, by the computer's ledger. There are no tags: a machine's name identifies it,
// "gputrain-" with its pool and rank. Up to 40 characters, which suffice for a pool's ID of 15, it also
// has the times of its creation and of the end of the pool's TTL. It has neither its program nor its
// lease, so that from another computer Reap ends a machine once the TTL is over, and none without
// one. A key's name is "gputrainXpoolX" and the pool, as it may
// have letters and digits only. Renaming a machine hides it from everything but its own ledger.
//
// # Logging in
//
// The pool's key is registered with the account and named at launch. Each machine also has a
// password, which is never used, and is locked at the first boot unless [Config].KeepPassword
// is set. The API neither publishes nor accepts host keys, and the output of a machine's
// command cannot be read: the first contact decides. An attacker between this program and the
// machine at that moment can take its place, and receives everything that the pool sends,
// including the secrets of tasks. [gputrain.Spec].RequireKnownHostKey rejects all offers.
//
// # Errors
//
//   - ErrAuth: the key is wrong, or read-only.
//   - ErrQuota: the account may not have more.
//   - ErrBalance: the recharge amount or threshold is not set in its billing settings.
//   - ErrNoCapacity: another customer was faster; the pool takes the next offer.
//   - ErrInvalid: such as an image that does not fit the product.
//
// The API's errors have no codes: their texts determine their kinds.
//
// # What was verified
//
// The driver follows the vendor's description of the VM API, version 1.0.0
// (https://vm-docs.massedcompute.com/api/v1), with the answers that a shipping client is known
// to get instead of the described ones. A fake of the API checks every call against that
// description. No call was made to Massed Compute itself.
package massedcompute
