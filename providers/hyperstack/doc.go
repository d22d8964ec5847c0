// Package hyperstack rents virtual machines from Hyperstack, the cloud of NexGen Cloud.
//
//	pool, err := gputrain.Open(ctx, hyperstack.Config{Regions: []string{"CANADA-1"}}, gputrain.Spec{
//		Accelerator: accelerators.H100(accelerators.Count(8)),
//	})
//
// A node is a machine of its own, with a flavour's GPUs and a root disk of 100 GB, whatever
// Spec.DiskGiB is. Most flavours have a larger local disk, too, which Spec.Image.Setup may
// format and mount.
//
// # At a glance
//
//   - GPUs: NVIDIA (A100, H100, L40, RTX A6000) by flavour.
//   - Spot: yes: flavours of their own.
//   - Regions: [Config].Regions.
//   - Credentials: HYPERSTACK_API_KEY.
//   - Billing: by the minute; ended by delete.
//   - Private network: yes.
//   - Ends itself: no: until [gputrain.Reap].
//   - Host key pinned by: the pool's own key, by cloud-init.
//   - Tags: yes: labels; Spec.Tags as words like team=vision.
//   - Tried against: a fake held to the vendor's API description; not live.
//
// # Credentials
//
// The key is [Config].APIKey, else the variable HYPERSTACK_API_KEY. Keys are made in the
// console under API keys. The key of a user with a restricted role must be allowed to read
// flavours, stocks, images and prices, and to make, read and delete environments, key pairs and
// virtual machines. It need not be allowed to read the account's credit.
//
// # Which machines
//
// All flavours in stock, of all regions: CANADA-1, NORWAY-1 and US-1. [Config].Regions,
// Spec.Regions and Spec.Countries narrow that. [Config].NetworkOptimised keeps only flavours and
// regions with the fast network. Flavours that are sold out, or without that network, are offered
// with the reason why they cannot be rented. Whether an environment has it can be seen only once the environment exists; one
// without it is refused with gputrain.ErrUnsupported. The image is the newest Ubuntu with CUDA,
// by its name: Ubuntu's version counts first, then that of CUDA, then that of the driver.
//
// # Environments
//
// Hyperstack's machines are in environments, each in one region. A pool's first node in a
// region makes one with a key pair in it, named after the pool and the region; closing the pool
// removes both. An environment cannot be removed while it has machines, even ones that are
// being deleted: [Config].TeardownTimeout bounds the wait, and after that an error names the
// environment. Names have 50 characters at most, a pool's ID has 32.
//
// Nodes in one environment reach each other at all ports by their private addresses, if the API
// reports the environment's network. Nodes in different regions do not. From outside only SSH
// is open, at port 22: machines are made without the port randomisation that is the API's
// default.
//
// # Spot
//
// Flavours whose names end in "-spot" are rented if Spec.Allocation asks for spot, at prices of
// their own. Hyperstack documents neither a notice nor the fate of a preempted machine: the
// pool notices that it is gone or stopped.
//
// # Billing
//
// By the minute, from the time when a machine is active until it is deleted. A machine that is
// shut off, even from inside, costs as much as a running one; a hibernated one costs its disk
// and address. The price of an offer is the sum of the pricebook's prices of its GPUs (or of its
// vCPUs and memory, if it has none), of its root disk and of its public address, which are the
// parts "machine", "disk" and "address". A warning names a part that the pricebook lacks; without
// the first the price is unknown, and Spec.AllowUnknownPrice decides. The pool asks for the
// account's credit before it rents a machine, if the key may read it. An account without credit
// is refused before anything is made.
//
// # When the client is gone
//
// Nothing on a machine can end its billing without the account's key, which is never put there:
// keys do not expire, and each has all rights of its user, over all machines.
// Machines carry their pool, its program and its lease as labels, and [gputrain.Reap] ends
// leftovers, from anywhere. A machine whose labels were edited is still found by its
// environment.
//
// # Baked images
//
// [gputrain.Bake] makes a snapshot of a machine, and an image of that; both are deleted together, and the
// image serves machines of its region. What they cost is not in the pricebook, so their price is unknown.
// A snapshot that is no image yet has the labels of its pool only, and [gputrain.Reap] deletes it. The
// API's words for a snapshot that is not ready are not documented: the call that makes the image is
// repeated as long as it is refused for no known reason, an hour at most.
//
// # Host keys
//
// The pool makes them, and cloud-init installs them before the SSH server starts.
//
// # Storage
//
// Spec.Mounts is not supported. Nodes can use Hyperstack's object storage with the user's own
// keys; there are no settings for its region and endpoint, which come with buckets.
//
// # Errors
//
//   - ErrAuth: the key is wrong, or its role lacks a permission from above.
//   - ErrBalance: the account has no credit.
//   - ErrQuota: the account has reached a quota. The API tells none before.
//   - ErrNoCapacity: another customer was faster; the pool takes the next offer.
//   - ErrUnsupported: a region has no image, or no optimised network.
//   - ErrRateLimited: too many calls from this address, about 500 a minute.
//
// # What this was checked against
//
// The vendor's description of the API (https://infrahub-api-doc.nexgencloud.com/api.json), its
// SDK (https://github.com/NexGenCloud/hyperstack-sdk-go), and its pages on billing
// (https://infrahub-doc.nexgencloud.com/docs/billing/states-and-billing). No call was made to
// the live service. Not documented, and taken from clients: the texts of failures for lack of
// stock, quota or credit, the names of the pricebook for vCPUs, memory, disks and addresses, the
// lag of lists, and the end of a spot machine.
package hyperstack
