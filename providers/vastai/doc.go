// Package vastai rents from Vast.ai, a marketplace of Docker containers on other
// people's machines.
//
//	pool, err := gputrain.Open(ctx, vastai.Config{MinReliability: 0.98}, gputrain.Spec{
//		Accelerator: accelerators.H100(), Allocation: gputrain.SpotIfAvailable,
//	})
//
// A node is a container with its own disk, root, and one slice of a machine: all
// GPUs of an offer, never a part of them. An offer is one machine, so that a pool of
// four nodes takes four offers, the cheapest first; hosts want 4.5 seconds between
// two rentals.
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
// The key is [Config].APIKey, else the variable VAST_API_KEY, else the file that
// Vast's own command line keeps: ~/.config/vastai/vast_api_key. Keys are made at
// https://cloud.vast.ai/manage-keys/. One with restricted permissions needs misc
// (search), instance_read, instance_write, user_read, and user_write, for the pool's
// SSH key: that one is registered when the pool opens and removed when it closes.
//
// # Which machines
//
// Hosts differ wildly, and what they say of themselves is filtered: see the fields of
// Config. A machine that once failed to come up is not taken again by the same pool.
//
// # Spot
//
// Vast calls it interruptible. The bid is [Config].BidMultiplier times the lowest that
// the machine takes now, though never more than Spec.MaxHourlyUSD, and the price of
// an offer is that bid with its disk, as the bid is what is charged. Who is outbid is
// stopped without notice, and his disk goes on being billed: the pool destroys such a
// machine and takes another.
//
// # Billing
//
// By the second. GPUs are billed while the container runs; the disk for as long as the
// instance exists, also stopped; traffic per GB in both directions, at the host's price
// ([Config].MaxTrafficUSDPerGB bounds that), which no price of gputrain includes:
// Spec.IngressGiB and Spec.EgressGiB have it count in the order of offers. Only
// destroying an instance ends all of it. An account without credit has its instances
// stopped, not destroyed. A poweroff inside does not end the billing of the disk.
//
// # When the client is gone
//
// Every container has a key that can end that container and nothing else. With it a
// node destroys itself when its lease or TTL has run out; when nobody has taken it over
// within [Config].InstanceTimeout of its start; and at the latest when the pool's TTL,
// counted from its start, is over. It needs curl for that, wget or Python, and installs
// curl where the image has none of them and has apt. What remains, [gputrain.Reap]
// finds by the label of the instance and the comment of the SSH key, which hold the
// pool, its program and how long that is known to live. The label is the only tag that
// there is: who edits it hides the machine from Reap.
//
// # Host keys
//
// Vast neither publishes nor takes host keys, but tells a container's log by its API: a node
// prints its public host keys there when it starts, marked with its name, and the pool
// connects to no server but one that proves to have one of them. That excludes whoever
// stands between this program and the machine, Vast's SSH proxy included. It does not exclude
// the machine's host, who can read and change all that is in the container, nor Vast.ai,
// who tells the log; and it is worth what the image's keys are: an image that brings host
// keys of its own has keys that everybody has. The log is read from the address that the
// API names, by https, without the account's key, and of it no more than 256 KiB. A node
// whose log tells nothing within three minutes of its start is given up. With
// [Config].TrustFirstContact the first contact decides: whoever answers it is believed, and
// [gputrain.Spec].RequireKnownHostKey passes over all offers.
//
// # Several nodes in one network
//
// Nodes have no private addresses unless [Config].UseOverlay is set. It takes all nodes
// of a pool from one physical cluster, on different machines, and puts them on an
// overlay network, with all ports open: set NCCL_SOCKET_IFNAME to eth0, which is its
// interface. The API does not tell the addresses there: each node looks for its own, with
// ip, perl or Python, and one that has none of these has no private address. Few hosts have
// overlay networks.
//
// # Errors
//
//   - ErrAuth: the key is wrong, or lacks a permission from above.
//   - ErrQuota: the account has no credit, no card, or may not spend more yet: see
//     https://cloud.vast.ai/billing/.
//   - ErrNoOffers: relax MinReliability, Geolocation or the accelerator.
//   - ErrNoCapacity: somebody else was faster; the next offer is taken.
//   - ErrRateLimited: too many calls by this account at once, after several attempts.
package vastai
