// Package tensordock rents virtual machines from TensorDock, a marketplace of other people's
// hosts. It is experimental: the API is described in prose only, answers in shapes that differ from
// that, and times out often; what follows may fail where other providers do not.
//
//	pool, err := gputrain.Open(ctx, tensordock.Config{Location: "US"}, gputrain.Spec{
//		Accelerator: accelerators.RTX4090(accelerators.Count(2)),
//	})
//
// A node is a virtual machine with one GPU at least. How many vCPUs it has, how much memory and
// how large a disk is for the spec to say, and [Config]: each has its price, and an offer's is the sum.
//
// # At a glance
//
//   - GPUs: NVIDIA (RTX to H100) of many hosts; experimental.
//   - Spot: no.
//   - Regions: [Config].Location.
//   - Credentials: TENSORDOCK_API_TOKEN.
//   - Billing: by the second; ended by delete.
//   - Private network: no.
//   - Ends itself: no: until [gputrain.Reap].
//   - Host key pinned by: the pool's own key, by cloud-init; first contact with [Config].SSHUser.
//   - Tags: no: the name.
//   - Tried against: a fake of what clients and the docs tell; not live.
//
// # Credentials
//
// The token is [Config].APIToken, else the variable TENSORDOCK_API_TOKEN. Tokens are made at
// https://dashboard.tensordock.com/developers. A token is the long one: the authorization ID beside it, a
// UUID, belongs to an older API and is not accepted.
//
// # Which machines
//
// Every location has a tier, from 0, which are people's homes whose GPUs are often taken back, to 4. Less
// than [Config].MinTier is left out. A region is written as country, state and city,
// "US-Texas-Austin", so that Spec.Regions can name any part of that from the left.
//
// Images have no version of CUDA to ask for, and hosts have their own driver: see that programs
// find one that they can use. There is no architecture but amd64.
//
// # Network
//
// Nodes share the address of their host, and SSH is at a port of it that is forwarded: another after
// each rental. [Config].DedicatedIP takes such machines only that have an address of their own. There
// is no network between nodes: on forwarded ports they cannot find each other, and only tasks which
// need not will run on several. With addresses of their own they reach each other by those.
//
// Who logs in is root. The image's own user differs by host, so cloud-init is given a file of
// keys for root, and a line of sshd's configuration that names it. Where it is not heeded, [Config].SSHUser
// names whom the host lets in with the pool's key, which the create call has, too.
//
// # Billing
//
// By the second, at a balance of one dollar at least. A stopped machine's disk is billed, and whether its
// GPU is freed is not certain. Only deleting ends it, which a shutdown inside does not. There is
// no spot here. A GPU that its host takes back leaves a machine with a disk that is billed: that counts as
// preempted, so the pool deletes the machine and takes another.
//
// # When the client is gone
//
// Nothing on a node ends its billing, and the account's token is not put there. There are no tags: a
// machine's name tells its pool and nothing else. [gputrain.Reap] ends such a pool by its
// ledger, on the computer where that is; from elsewhere it ends none, as no name says whether the
// pool's program lives. No key is registered, and nothing is left beside the machine.
//
// # Host keys
//
// A node is given its host key by cloud-init, in a file of its own that sshd's configuration names before
// the image's, and is held to it from the first contact on. Who can read what cloud-init was given, on
// the node or by the API, can pass for that one node. Where it is not heeded the node shows another key, and
// is ErrHostKey; with [Config].SSHUser, which sends nothing to cloud-init, the first contact decides:
// whoever stands between this program and the node at that moment can take its place, the API has no log by
// which to tell, and [gputrain.Spec].RequireKnownHostKey passes over all offers.
//
// # Errors
//
//   - ErrAuth: the token is wrong, or is the authorization ID.
//   - ErrHostKey: the host did not heed cloud-init: set SSHUser.
//   - ErrQuota: the balance is too low.
//   - ErrNoCapacity: the host has none free any more; the next offer is taken.
//   - ErrUnavailable: also "unexpected error", by which the API refuses an image, a disk or a host
//     without saying which. Try another Image, or a StorageGB of 200.
//   - ErrNoOffers: relax Location, MinTier or the accelerator.
//
// # What this was made from
//
// The prose at https://dashboard.tensordock.com/api/docs, and what clients of the API that are public
// expect of it. It is tested against a fake of that. No call was ever made of the service
// itself: how long its lists lag, for one, is an estimate.
package tensordock
