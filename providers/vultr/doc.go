// Package vultr rents from Vultr: virtual machines with GPUs or parts of them, and whole
// servers.
//
//	pool, err := gputrain.Open(ctx, vultr.Config{Region: vultr.Anywhere}, gputrain.Spec{
//		Accelerator: accelerators.L40S(), Nodes: 2,
//	})
//
// A node is one machine of a plan, with its own address and root. A plan has a fixed number
// of GPUs, processors and disks: Spec.DiskGiB chooses among plans and resizes nothing. A spec
// without accelerator takes plans without GPU, too.
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
//   - Tags: yes.
//   - Tried against: a fake held to the vendor's API description of 2023; not live.
//
// # Credentials
//
// The key is [Config].APIKey, else the variable VULTR_API_KEY. It is made at
// https://my.vultr.com/settings/#settingsapi, where it can be limited to some addresses:
// this computer's must be among them. The key of a sub-user needs the permission to
// provision and to manage subscriptions. Opening makes one call, for the account.
//
// # Which machines
//
// [Config].Mode is [Cloud] or [BareMetal]. [Config].Region is one region, or [Anywhere];
// where it is empty Spec.Regions says, and else it is [DefaultRegion]. Offers are the plans
// that a region has in stock: where a plan is sold says nothing of that. There is one
// more call for each region where a fitting plan is sold. Prices are those of the region.
//
// Virtual machines take up to 5 minutes to boot, servers 10 to 30; [Config].ProvisionTimeout
// bounds it. Servers with a GH200 are arm64 (Spec.Arch): they need an image for that in
// [Config].OSID or ImageID.
//
// # Images
//
// Virtual machines start from Ubuntu 24.04, where Vultr installs the licensed driver that
// parts of a GPU need: do not replace it. On bare metal plain Ubuntu has no driver at all,
// so the default there is [DefaultMetalImage], an application of Vultr's marketplace: Ubuntu
// with NVIDIA's driver. For AMD's GPUs name an image that has ROCm. [Config].OSID and
// [Config].ImageID choose another; it must have cloud-init.
//
// # Billing
//
// By the hour, rounded up, and for 672 hours a month at most. A machine that is halted is
// billed in full, and so is one that Vultr suspends: only destroying it ends that. There is
// no spot: plans that are rented as preemptible only are left out, as no document says how
// to ask for them.
//
// # When the client is gone
//
// Nothing on a node ends its billing, as a shutdown does not, and the account's key must not
// be there. [gputrain.Reap] does, from any computer that has the key: it finds machines of
// both kinds by their tags, which hold the pool, its program and how long that is known to
// live, or by their labels if the tags were lost. It may be that Vultr destroys no server
// that is still being installed: the driver asks for two minutes, and then it is for Reap.
//
// # Keys and networks
//
// Nodes get the pool's public key and a host key of their own by user data. So nothing is
// made in the account but machines, and a node is known by its key from the first contact.
// Who can read the user data of a node, in it or by the API, can pass for that one node.
//
// Nothing filters what reaches a node but what its image does. Nodes have no private
// addresses (Capabilities.PrivateNetwork): a VPC is a thing of one region, which servers are
// not documented to join.
//
// # Errors
//
//   - ErrAuth: the key is wrong, may not provision, or may not be used from this address.
//   - ErrQuota: the account may not have more, or has no credit. See https://my.vultr.com/billing/.
//   - ErrNoOffers: nothing in stock fits. Try [Anywhere], or the other Mode.
//   - ErrNoCapacity: the stock was gone when it was asked for; the next offer is taken.
//   - ErrRateLimited: more than 30 calls a second from this address, after several attempts.
//
// The API tells failures apart by words only, which may change.
//
// # What this was made from
//
// The vendor's description of API v2, https://www.vultr.com/api/, as of 2023, with what its
// client library and other programs know of the service since. The tests run against a fake
// that is held to that description. No call was made against the service itself. Not
// documented, and assumed: how lists lag, the words of refusals, that user data is heeded by
// every image, that a tag may have more than 100 letters.
package vultr
