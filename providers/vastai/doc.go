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
//   - Private network: with [Config].UseOverlay.
//   - Ends itself: yes, by its lease, with the instance's own key.
//   - Host key pinned by: the cloud's word: the node's log; first contact with
//     [Config].TrustFirstContact.
//   - Tags: yes: the instance's label.
//   - Tried against: a fake held to the vendor's API description; not live.
//
// # Credentials
//
// The key is [Config].APIKey, else the variable VAST_API_KEY, else the file of Vast's own
// command line: ~/.config/vastai/vast_api_key. Keys are made at
// https://cloud.vast.ai/manage-keys/. A key with restricted permissions needs misc (search),
// instance_read, instance_write, user_read, and user_write for the pool's SSH key, which is
// registered when the pool opens and removed when it closes.
//
// # Which machines
//
// Hosts differ wildly, and Config's fields filter their reports. The same pool does not retry a
// machine that failed to come up.
//
// # Spot
//
// Vast calls it interruptible. The bid is [Config].BidMultiplier times the lowest that the
// machine accepts now, but never more than Spec.MaxHourlyUSD. The price of an offer is that bid
// plus its disk, as Vast charges the bid. An outbid machine is stopped without notice, and its
// disk is still billed: the pool destroys it and rents another.
//
// # Billing
//
// By the second. GPUs are billed while the container runs; the disk as long as the instance
// exists, even stopped; and traffic per GB in both directions, at the host's price, which
// [Config].MaxTrafficUSDPerGB bounds. No price of gputrain includes traffic, but
// Spec.IngressGiB and Spec.EgressGiB make it count in the order of offers. Only destroying an
// instance ends all billing. The instances of an account without credit are stopped, not
// destroyed. A poweroff inside does not end the billing of the disk.
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
// Nodes have no private addresses unless [Config].UseOverlay is set. It takes all nodes of a
// pool from one physical cluster, on different machines, and puts them on an overlay network,
// with all ports open: set NCCL_SOCKET_IFNAME to eth0, its interface. The API does not report
// the addresses there: each node finds its own with ip, perl or Python, and a node without any
// of these has no private address. Few hosts have overlay networks.
//
// # Errors
//
//   - ErrAuth: the key is wrong, or lacks a permission from above.
//   - ErrQuota: the account has no credit, no card, or may not spend more yet: see
//     https://cloud.vast.ai/billing/.
//   - ErrNoOffers: relax MinReliability, Geolocation or the accelerator.
//   - ErrNoCapacity: another user was faster; the pool takes the next offer.
//   - ErrRateLimited: too many calls by this account at once, after several attempts.
package vastai
