// Package tensordock rents virtual machines from TensorDock, a marketplace of other people's
// hosts. It is experimental: only prose describes the API, its answers differ from that in
// shape, and it times out often. What follows may fail more often than with other providers.
//
//	pool, err := gputrain.Open(ctx, tensordock.Config{Location: "US"}, gputrain.Spec{
//		Accelerator: accelerators.RTX4090(accelerators.Count(2)),
//	})
//
// A node is a virtual machine with at least one GPU. The spec and [Config] choose its vCPUs,
// memory and disk. Each has a price, and an offer's price is the sum; its parts are the machine and
// its disk. Traffic is free, as far as the documentation tells.
//
// # At a glance
//
//   - GPUs: NVIDIA (RTX to H100) of many hosts; experimental.
//   - Spot: no.
//   - Regions: [Config].Location.
//   - Credentials: TENSORDOCK_API_TOKEN; TENSORDOCK_API_KEY for the balance.
//   - Billing: by the second; ended by delete.
//   - Private network: no.
//   - Ends itself: no: until [gputrain.Reap].
//   - Host key pinned by: the pool's own key, by cloud-init; first contact with [Config].SSHUser.
//   - Tags: no: the name, with creation and TTL.
//   - Tried against: a fake by the docs and other clients; not live.
//
// # Credentials
//
// The token is [Config].APIToken, else the variable TENSORDOCK_API_TOKEN. Tokens are made at
// https://dashboard.tensordock.com/developers. A token is the long string: the authorization ID
// beside it, a UUID, is not accepted in its place. It is [Config].APIKey, else the variable
// TENSORDOCK_API_KEY. Only an older API tells the account's money, which needs both. Without the
// ID a pool learns that there is none when its first launch fails.
//
// # Which machines
//
// Every location has a tier, from 0 (people's homes, whose GPUs are often taken back) to 4. All
// are offered, those of tier 0 with a warning. Locations below [Config].MinTier are rejected. A
// region is written as country, state and city, "US-Texas-Austin", so that Spec.Regions can name
// any part of that from the left.
//
// Images have no CUDA version to ask for, and hosts have their own driver: programs must cope
// with both. The only architecture is amd64.
//
// # Network
//
// Nodes share the address of their host. SSH is at a forwarded port of it, a different one
// after each rental. [Config].DedicatedIP restricts machines to those with an address of their
// own. There is no network between nodes: on forwarded ports they cannot find each other, and
// only tasks that do not need to can run on several. With addresses of their own they reach
// each other by those.
//
// The login user is root. The image's own user differs by host, so cloud-init gets a file of
// keys for root, and a line of sshd's configuration that names it. If a host ignores that, set
// [Config].SSHUser to the user that the host lets in with the pool's key, which the create call
// contains, too.
//
// # Billing
//
// By the second, at a balance of at least one dollar. A stopped machine's disk is billed;
// whether its GPU is freed is uncertain. Only deleting a machine ends that, not a shutdown
// inside. There is no spot here. If a host takes a GPU back, a machine with a billed disk
// remains: it counts as preempted, so the pool deletes the machine and rents another.
//
// # When the client is gone
//
// Nothing on a node can end its billing, and the account's token is not put there. There are no
// tags: a machine's name holds its pool, when it was made, and when the pool's TTL ends.
// [gputrain.Reap] ends such a pool by its ledger; from other computers once the TTL is over, and
// never without one, as the name does not show whether the pool's program is alive. No key is
// registered, and nothing is left beside the machine.
//
// # Host keys
//
// A node gets its host key by cloud-init, in a file of its own that sshd's configuration names
// before the image's. The node must show that key from the first contact on. A reader of
// cloud-init's data, on the node or by the API, can impersonate that one node. If a host
// ignores cloud-init, the node shows another key, which is ErrHostKey. With [Config].SSHUser,
// which sends nothing to cloud-init, the first contact decides: an attacker between this
// program and the node at that moment can take its place, the API has no log that would show
// it, and [gputrain.Spec].RequireKnownHostKey rejects all offers.
//
// # Errors
//
//   - ErrAuth: the token is wrong, or is the authorization ID.
//   - ErrHostKey: the host ignored cloud-init: set SSHUser.
//   - ErrBalance: the account has less than a dollar.
//   - ErrNoCapacity: the host has none free any more; the pool takes the next offer.
//   - ErrUnavailable: also "unexpected error", with which the API refuses an image, a disk or a
//     host without naming it. Try another Image, or a StorageGB of 200.
//   - ErrNoOffers: [gputrain.Plan] shows the reasons: Location, MinTier, sold out.
//
// # What this was made from
//
// The prose at https://dashboard.tensordock.com/api/docs, and the expectations of public
// clients of the API. The tests use a fake of that. No call was ever made to the service
// itself: the lag of its lists, for example, is an estimate.
package tensordock
