// Package vultr rents from Vultr: virtual machines with GPUs or parts of them, and physical
// servers.
//
//	pool, err := gputrain.Open(ctx, vultr.Config{Region: vultr.Anywhere}, gputrain.Spec{
//		Accelerator: accelerators.L40S(), Nodes: 2,
//	})
//
// A node is one machine of a plan, with its own address and root. A plan has a fixed number of
// GPUs, processors and disks: Spec.DiskGiB selects plans and resizes nothing. A spec without
// accelerator accepts plans without GPU, too.
//
// # At a glance
//
//   - GPUs: NVIDIA and AMD, whole and in parts, cloud and bare metal.
//   - Spot: no.
//   - Regions: [Config].Region.
//   - Credentials: VULTR_API_KEY.
//   - Billing: by the hour; ended by DELETE /instances/{id} and /bare-metals/{id}.
//   - Private network: no.
//   - Ends itself: no: until [gputrain.Reap].
//   - Host key pinned by: the pool's own key, by cloud-init.
//   - Tags: yes; Spec.Tags, too.
//   - Tried against: a fake held to the vendor's API description of 2023; not live.
//
// # Credentials
//
// The key is [Config].APIKey, else the variable VULTR_API_KEY. It is made at
// https://my.vultr.com/settings/#settingsapi, where the user can limit it to some addresses:
// this computer's must be among them. The key of a sub-user needs the permission to provision
// and to manage subscriptions. Open makes one call, for the account.
//
// # Which machines
//
// [Config].Mode is [Cloud] or [BareMetal]. [Config].Region is one region, or [Anywhere]; if it
// is empty, Spec.Regions and Spec.Countries choose, or else [DefaultRegion]. A plan that is sold
// in a region may be out of stock there, which takes one more call for each region with a fitting
// plan. Prices are the region's, with the disk, an address and the plan's share of traffic.
//
// Virtual machines take up to 5 minutes to boot, servers 10 to 30; [Config].ProvisionTimeout
// bounds that. Servers with a GH200 are arm64 (Spec.Arch): they need an arm64 image in
// [Config].OSID or ImageID.
//
// # Images
//
// Virtual machines start from Ubuntu 24.04, in which Vultr installs the licensed driver that
// parts of a GPU need: do not replace it. Plain Ubuntu has no driver on bare metal, so the
// default there is [DefaultMetalImage], an application of Vultr's marketplace: Ubuntu with
// NVIDIA's driver. For AMD's GPUs choose an image with ROCm. [Config].OSID and [Config].ImageID
// choose another image; it must have cloud-init.
//
// # Baked images
//
// [gputrain.Bake] makes a snapshot of a cloud machine, which serves all regions; bare metal has none. A
// snapshot has no tags, so its description is gputrain's: do not edit it. Its price is not in the API, and
// counts as unknown. A snapshot in the making is its pool's, and [gputrain.Reap] deletes it. The length
// that a description may have is not documented; the calls were tried against a fake only.
//
// # Billing
//
// By the hour, rounded up, and for 672 hours a month at most. Halted and suspended machines are
// billed in full: only destroying one ends that. There is no spot: plans that are only rented
// as preemptible are rejected, as no document describes how to request them.
//
// The account's credit is known before a launch. An account without credit may have a payment card
// and launch nevertheless, so its first launch shows whether it may.
//
// Spec.Tags are words of a machine's tags, "team-vision" for team=vision. They may have letters,
// digits, dots, dashes and underscores.
//
// # When the client is gone
//
// Nothing on a node can end its billing, as a shutdown does not, and the account's key must not
// be there. [gputrain.Reap] does, from any computer with the key: it finds machines of both
// kinds by their tags, which hold the pool, its program and the end of its lease, or by their
// labels if the tags were lost. Vultr may refuse to destroy a server that is still being
// installed: the driver retries for two minutes, then Reap must end it.
//
// # Keys and networks
//
// Nodes get the pool's public key and a host key of their own by user data. So the account
// holds nothing but machines, and a node's key is verified from the first contact. A reader of
// a node's user data, on the node or by the API, can impersonate that one node.
//
// Only a node's image filters its traffic. Nodes have no private addresses
// (Capabilities.PrivateNetwork): a VPC is in one region, and servers are not documented to join
// one.
//
// # Errors
//
//   - ErrAuth: the key is wrong, may not provision, or may not be used from this address.
//   - ErrQuota: the account may not have more.
//   - ErrBalance: it has no credit. See https://my.vultr.com/billing/.
//   - ErrNoOffers: nothing in stock fits. Try [Anywhere], or the other Mode.
//   - ErrNoCapacity: the stock was gone at the launch; the pool takes the next offer.
//   - ErrRateLimited: more than 30 calls a second from this address, after several attempts.
//
// Only texts identify the API's failures, and these may change.
//
// # What this was made from
//
// The vendor's description of API v2, https://www.vultr.com/api/, as of 2023, with what its
// client library and other programs know of the service since. The tests run against a fake
// that is held to that description. No call was made to the service itself. Not documented, and
// assumed: the lag of lists, the texts of refusals, that every image uses its user data, and
// that a tag may have more than 100 letters.
package vultr
