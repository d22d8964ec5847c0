// Package novita rents GPU instances from Novita.
//
//	pool, err := gputrain.Open(ctx, novita.Config{AllowPasswordAtFirstContact: true}, gputrain.Spec{
//		Accelerator: accelerators.RTX4090(), Allocation: gputrain.SpotIfAvailable,
//	})
//
// A node is a container with root and a disk of its own, reached through Novita's proxy.
//
// # At a glance
//
//   - GPUs: NVIDIA (RTX 3090 to 5090, A100, H100) in containers.
//   - Spot: yes.
//   - Regions: [Config].ClusterID.
//   - Credentials: NOVITA_API_KEY.
//   - Billing: by the second; ended by delete.
//   - Private network: no.
//   - Ends itself: no: until [gputrain.Reap].
//   - Host key pinned by: first contact, by a password that is used once.
//   - Tags: no: the name.
//   - Tried against: a fake held to a description derived from the vendor's pages; not live.
//
// # Credentials
//
// The key is [Config].APIKey, else the variable NOVITA_API_KEY. Keys are made at
// https://novita.ai/settings/key-management; they have no permissions to choose from. The
// API has no SSH keys: Novita makes a password for every node, anew at every start, which
// this package reads. The pool logs in with it once, to put its own key in place, and again
// only where the proxy takes no keys. It is in no error, event or log. The
// API does not name the account either: it is told from others by
// a digest of its key, so that a new key is another account as far as ledgers go. Close
// pools before changing it.
//
// # Images and CUDA
//
// Clusters differ in the drivers of their machines, and an image whose CUDA is newer than
// its driver sees no GPU. Where neither [Config].Image nor [Config].MinCUDAVersion is set, a launch
// asks for [DefaultImage] on a machine with a driver for CUDA 12.9, and while none is free
// for the image of the next older version, down to 11.8, or 12.8 for Blackwell. An image of
// your own is never exchanged: it is asked for once, for MinCUDAVersion, else for the version that
// its tag tells ("cuda:12.4"), else for 12.9. [Ubuntu] names NVIDIA's images; one without a
// command that goes on running ends at once, and the node with it.
//
// # Offers
//
// An offer is a product with as many GPUs as the spec asks for, 8 at most. Without
// [Config].ClusterID and Spec.Regions it may be in any cluster. Spec.Regions are IDs of
// clusters, or their beginnings: "us-ca" allows "us-ca-6". The disk is Spec.DiskGiB, else
// [Config].RootFSSize, else 50 GB; of more than 60 the rest is in the price, at what Novita
// says of disks that are kept.
//
// # Spot
//
// Spot instances are rented by [gputrain.Spec].Allocation. One that is to be taken back is
// told so with the time, though nobody says how long before; it is stopped then, and its
// disk billed: the pool deletes it and takes another.
//
// # Billing
//
// By the second, from the pulling of the image. Instances that are stopped are billed for
// their disks, and lose them after a week. This package deletes, and never stops.
//
// # When the client is gone
//
// Nothing on a node can end it: that takes the account's key, which is not for nodes, and a
// container that ends is stopped, with a disk that is billed. What a program leaves when
// it dies, [gputrain.Reap] ends by the ledger of the computer. Instances have no tags: their
// names tell the pool, and not whether its program lives, so that from another computer
// nothing is ended.
//
// # Host keys
//
// Novita neither publishes nor takes host keys, and has no call for a node's log: the first
// contact decides, through its proxy, and [gputrain.Spec].RequireKnownHostKey passes over
// its offers. Whoever can stand in for the proxy at that moment learns the node's password,
// and is given what the pool sends: programs, data, the secrets of tasks. So nothing is
// offered until [Config].AllowPasswordAtFirstContact says that this is acceptable. The
// password is good for this node and until its next start, and for nothing else of the
// account's. Spend nothing on such a node that must not be seen.
//
// # Several nodes
//
// Nodes have no private network, and the proxy forwards SSH alone: they reach each other
// by no address.
//
// # Errors
//
//   - ErrInvalid: AllowPasswordAtFirstContact is not set, or a parameter is wrong.
//   - ErrAuth: the key is wrong, or the account is barred.
//   - ErrQuota: the balance is spent, or the account may have no more instances.
//   - ErrNoCapacity: no machine is free for any version of CUDA that was tried.
//   - ErrNoOffers: relax ClusterID, Regions or the accelerator.
//
// # What this was made from
//
// Novita's pages about each call of its GPU instance API v1
// (https://novita.ai/docs/api-reference/gpu-instance-list-instances and those beside it),
// and the sources of programs that use it. Tests run against a fake that follows them. No
// call was made to the service itself. Not known for certain are the layout of errors, of
// which a word is looked for wherever it may be; whether the first page of a list is 0 or 1,
// where either will do; whether the proxy takes keys, where the password is for; that the
// patch releases of the default images exist; how many calls a second are allowed; and how
// soon a list has what was made, for which 10 seconds are allowed.
package novita
