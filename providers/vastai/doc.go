// Package vastai rents from Vast.ai, a marketplace of Docker containers on other
// people's machines.
//
//	pool, err := gputrain.Open(ctx, vastai.Config{MinReliability: 0.98}, gputrain.Spec{
//		Accelerator: accelerators.H100(), Allocation: gputrain.SpotIfAvailable,
//	})
//
// A node is a container with its own disk, root, and one slice of a machine: all GPUs of an
// offer, never a part of them. An offer is one machine, so that a pool of four nodes takes four
// offers, the cheapest first; the API requires 4.5 seconds between two rentals.
//
// # At a glance
//
//   - GPUs: machines of many hosts.
//   - Spot: yes: bids.
//   - Regions: [Config].Geolocation.
//   - Credentials: VAST_API_KEY.
//   - Billing: by the second; ended by destroy.
//   - Private network: with Spec.Network or [Config].UseOverlay.
//   - Ends itself: yes, by its lease, with the instance's own key.
//   - Host key pinned by: the cloud's word: the node's log; first contact with
//     [Config].TrustFirstContact.
//   - Tags: yes: the instance's label; none of the user's own.
//   - Tried against: a fake held to the vendor's API description; not live.
//
// # Credentials
//
// The key is [Config].APIKey, else the variable VAST_API_KEY, else the file of Vast's own
// command line: ~/.config/vastai/vast_api_key, also below
// XDG_CONFIG_HOME, or ~/.vast_api_key. Keys are made at
// https://cloud.vast.ai/manage-keys/. A key with restricted permissions needs misc (search),
// instance_read, instance_write, user_read, and user_write for the pool's SSH key, which is
// registered when the pool opens and removed when it closes.
//
// # Which machines
//
// Hosts differ wildly, and Config's fields filter their reports: by default a machine is verified
// by Vast, has a reliability of 0.95, a direct port for SSH, and a driver for the image's CUDA.
// [gputrain.Plan] shows the offers with the wanted GPUs that fail this, with the reasons. The same
// pool does not retry a machine on which a node failed: Offer.Host is the machine's number.
//
// [Config].AllowProxy also takes machines without a direct port. Vast's proxy is slow, and meant for
// less than a GB. Countries of Spec.Regions and Spec.Countries are searched for, within
// [Config].Geolocation.
//
// A host's contract has an end, at which it takes the machine back: each offer has a warning of it, and
// an offer whose contract ends before Spec.TTL is over is rejected. An instance that loads its image
// for ten minutes, or that waits for its GPU for 30 seconds after a stop, is given up, with the end of
// Vast's log in the reason.
//
// # Images
//
// Vast stores an image's name, the environment and the start command, so none of them has a secret.
// [Config].RegistryUser and RegistryToken are for a private image: Vast gets them in the call that
// rents a node, and the node does not. An image whose CUDA is newer than the host's driver sees no
// GPU, so [Config].MinCUDA follows the version in the image's name. [Ubuntu] names NVIDIA's images.
//
// # Disks and ports
//
// A disk's size, Spec.DiskGiB or [Config].DiskGB, is fixed at creation. It holds the image's layers,
// caches and checkpoints, and has only as many inodes as its size gives it. Destroying a node loses
// it, and no volume follows a job to another machine: collect results before.
//
// Vast maps SSH's port and those of [Config].Ports, 64 at most, to random ones of the machine.
// Instance.Ports has their addresses once the node runs.
//
// # Spot
//
// Vast calls it interruptible. The bid is [Config].BidMultiplier times the lowest that the
// machine accepts now, but never more than Spec.MaxHourlyUSD. The price of an offer is that bid
// plus its disk, as Vast charges the bid. An outbid machine is stopped without notice, and its
// disk is still billed: the pool destroys it and rents another. Write checkpoints by time.
//
// # Billing
//
// By the second. GPUs are billed while the container runs; the disk as long as the instance
// exists, even stopped; and traffic per GB in both directions, in every state, at the host's price,
// which [Config].MaxTrafficUSDPerGB bounds. An offer's price has the parts "machine" and "disk", and
// beside it the prices of traffic, which count with Spec.IngressGiB and Spec.EgressGiB. Only
// destroying an instance ends all billing. Nothing is launched if the account has no credit: Vast
// stops the instances of such an account, and does not destroy them at once. A poweroff inside does
// not end the billing of the disk.
//
// # When the client is gone
//
// Every container has a key that can end that container and nothing else. With it a node
// destroys itself when its lease or TTL has run out, when no pool has taken it over within
// [Config].InstanceTimeout of its start, and at the latest when the pool's TTL, counted from
// its start, is over. It needs curl, wget or Python for that, and installs curl if the image
// has none of them and has apt. [gputrain.Reap] finds the rest by the label of the instance and
// the comment of the SSH key, which hold the pool, its program and the end of its lease. There
// are no other tags: editing the label hides the machine from Reap.
//
// # Host keys
//
// Vast neither publishes nor accepts host keys, but its API returns a container's log. A node
// prints its public host keys there when it starts, marked with its name, and the pool connects
// only to a server that proves to have one of them. That excludes attackers between this
// program and the machine, Vast's SSH proxy included. It does not exclude the machine's host,
// which can read and change everything in the container, or Vast.ai, which serves the log. It
// is also only as good as the image's keys: host keys inside an image are not secret. The log
// is read from the address that the API names, by https, without the account's key, and only up
// to 256 KiB. A node whose log has no key within three minutes of its start is given up. With
// [Config].TrustFirstContact the first contact decides: the pool trusts any server that answers
// it, and [gputrain.Spec].RequireKnownHostKey rejects all offers.
//
// # Several nodes in one network
//
// Nodes have no private addresses unless Spec.Network is NetworkPrivate or [Config].UseOverlay is
// set. Both take all nodes of a pool from one physical cluster, on different machines, and put
// them on an overlay network, with all ports open: its interface is eth0. Few machines have that:
// [gputrain.Plan] says which are in no cluster, or in one with too few free machines. The API does not report
// the addresses there: each node finds its own with ip, perl or Python, and a node without any
// of these has no private address. The network is in the ledger before it is made, and is removed
// once no instance is in it.
//
// # Errors
//
//   - ErrAuth: the key is wrong, or lacks a permission from above.
//   - ErrBalance: the account has no credit or no card: see https://cloud.vast.ai/billing/.
//   - ErrQuota: a new account may not spend more yet.
//   - ErrNoOffers: relax what the reasons name.
//   - ErrNoCapacity: another user was faster; the pool takes the next offer.
//   - ErrRateLimited: too many calls by this account at once, after several attempts.
package vastai
