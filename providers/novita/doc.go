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
//   - Tags: no: the name, with creation and TTL.
//   - Tried against: a fake held to a description derived from the vendor's pages; not live.
//
// # Credentials
//
// The key is [Config].APIKey, else the variable NOVITA_API_KEY. Keys are made at
// https://novita.ai/settings/key-management; they have no permissions to choose from. The API
// has no SSH keys: Novita makes a password for every node, a new one at every start, and this
// package reads it. The pool logs in with it once, to install its own key, and again only if
// the proxy accepts no keys. It is in no error, event or log. The API does not name the account
// either: a digest of the key identifies it, so that a new key is another account for ledgers.
// Close pools before changing it.
//
// # Images and CUDA
//
// Clusters differ in the drivers of their machines, and an image whose CUDA is newer than the
// driver sees no GPU. If neither [Config].Image nor [Config].MinCUDAVersion is set, a launch
// asks for [DefaultImage] on a machine with a driver for CUDA 12.9. While none is free, it
// tries the image of the next older version, down to 11.8, or 12.8 for Blackwell. The user's
// own image is never exchanged: a launch asks for it once, with MinCUDAVersion, else the
// version in its tag ("cuda:12.4"), else 12.9. [Ubuntu] names NVIDIA's images. An image without
// a command that keeps running ends at once, and the node with it.
//
// # Offers
//
// An offer is a product with as many GPUs as the spec asks for, at most 8. Without
// [Config].ClusterID, Spec.Regions and Spec.Countries it may be in any cluster. Spec.Regions are
// IDs of clusters, or prefixes of them: "us-ca" allows "us-ca-6". The country is the one in the
// names of a product's clusters, and unknown if there are several. The disk is Spec.DiskGiB, else
// [Config].RootFSSize, else 50 GB. The price includes the part over 60 GB, at Novita's price of
// disks of stopped instances. Traffic is free, as far as is known.
//
// # Private images
//
// [Config].RegistryUser and RegistryPassword are the login of a private registry, or
// [Config].RegistryAuthID names one that is stored in Novita's console. The login is part of the
// create call, so Novita has it, and it is not put on the node. Nothing is made for it.
//
// # Spot
//
// [gputrain.Spec].Allocation decides on spot instances. Novita announces a preemption with its
// time, though the notice is not documented. The instance is then stopped and its disk billed:
// the pool deletes it and rents another.
//
// # Billing
//
// By the second, from the pull of the image. Stopped instances are billed for their disks, and
// lose them after a week. This package deletes instances and never stops them.
//
// # When the client is gone
//
// Nothing on a node can end its billing: that takes the account's key, which is not put on
// nodes, and a container that ends is stopped, with a billed disk. [gputrain.Reap] ends the
// leftovers of a dead program by the computer's ledger. Instances have no tags: their names
// hold the pool, when they were made, and when the pool's TTL ends, but not whether its program is
// alive. So from another computer Reap ends them once the TTL is over, and none without one.
//
// # Host keys
//
// Novita neither publishes nor accepts host keys, and has no call for a node's log: the first
// contact decides, through its proxy, and [gputrain.Spec].RequireKnownHostKey rejects its
// offers. An attacker in the proxy's place at that moment learns the node's password, and
// receives everything that the pool sends: programs, data, the secrets of tasks. So nothing is
// offered until the user accepts that with [Config].AllowPasswordAtFirstContact. The password
// is valid for this node until its next start, and for nothing else in the account. Send
// nothing confidential to such a node.
//
// # Several nodes
//
// Nodes have no private network, and the proxy forwards only SSH: they cannot reach each other.
//
// # Errors
//
//   - ErrInvalid: AllowPasswordAtFirstContact is not set, or a parameter is wrong.
//   - ErrAuth: the key is wrong, or the account is barred.
//   - ErrBalance: the balance is spent.
//   - ErrQuota: the account may have no more instances.
//   - ErrNoCapacity: no machine is free for any version of CUDA that was tried.
//   - ErrNoOffers: relax ClusterID, Regions or the accelerator.
//
// # What this was made from
//
// Novita's pages about each call of its GPU instance API v1
// (https://novita.ai/docs/api-reference/gpu-instance-list-instances and those beside it), and
// the sources of programs that use it. Tests run against a fake that follows them. No call was
// made to the service itself. Uncertain are the layout of errors, so known words are searched
// in the whole answer; whether the first page of a list is 0 or 1, so both work; whether the
// proxy accepts keys, so the password stays ready; whether the patch releases of the default
// images exist; the allowed calls a second; and the lag of lists, assumed to be 10 seconds.
package novita
