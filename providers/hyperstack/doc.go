// Package hyperstack rents virtual machines from Hyperstack, the cloud of NexGen Cloud.
//
//	pool, err := gputrain.Open(ctx, hyperstack.Config{Regions: []string{"CANADA-1"}}, gputrain.Spec{
//		Accelerator: accelerators.H100(accelerators.Count(8)),
//	})
//
// A node is a machine of its own, with a flavour's GPUs, a root disk of 100 GB, whatever
// Spec.DiskGiB says, and on most flavours a larger local disk that Spec.Image.Setup may
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
//   - Tags: yes: labels.
//   - Tried against: a fake held to the vendor's API description; not live.
//
// # Credentials
//
// The key is [Config].APIKey, else the variable HYPERSTACK_API_KEY. Keys are made in the
// console under API keys. One of a user with a restricted role needs to read flavours,
// stocks, images and prices, and to make, read and delete environments, key pairs and
// virtual machines. One that may not read the account's credit does, too.
//
// # Which machines
//
// All flavours that are in stock, of all regions: CANADA-1, NORWAY-1 and US-1.
// [Config].Regions and Spec.Regions narrow that. [Config].NetworkOptimised keeps flavours
// and regions that have the fast network; whether an environment has it can be seen only
// once it is there, and one that has not is refused with gputrain.ErrUnsupported. The image is
// the newest Ubuntu with CUDA, by its name: Ubuntu's version counts first, then that of CUDA,
// then that of the driver.
//
// # Environments
//
// Hyperstack has machines in environments, which are in one region each. The first node of a
// pool in a region makes one, with a key pair in it, under the name of the pool and the region;
// closing the pool removes both. An environment refuses that while it has machines, also such as
// are being deleted: [Config].TeardownTimeout says how long that is waited for, and an error
// then names it. Names have 50 characters at most: a pool's ID has 32.
//
// Nodes in one environment reach each other at all ports by their private addresses, where the
// API tells the environment's addresses. Those in different regions do not. From outside only
// SSH is open, at port 22: machines are made without the port randomisation that is the
// API's default.
//
// # Spot
//
// Flavours whose names end in "-spot" are rented where Spec.Allocation asks for spot, at prices
// of their own. Hyperstack documents neither a notice nor what becomes of a machine that is
// taken back: the pool notices that it is gone, or stopped.
//
// # Billing
//
// By the minute, from when a machine is active until it is deleted: one that is shut off, also
// from inside, costs as much as one that runs, and one that hibernates its disk and address.
// Prices of flavours without GPU, and what a public address costs, are not in the price that
// the API tells by GPU: such a flavour's price is not known, and Spec.AllowUnknownPrice decides.
// An account without credit is refused before anything is made.
//
// # When the client is gone
//
// Nothing on a machine can end its billing without the account's key, which is never put
// there. Machines carry their pool, its program and its lease as labels, and [gputrain.Reap]
// ends what is left, from anywhere. Who edits the labels does not hide a machine: it is found by
// its environment.
//
// # Host keys
//
// The pool makes them, and cloud-init puts them in place before the SSH server starts.
//
// # Storage
//
// Spec.Mounts is not understood. Hyperstack's object storage can be used from the nodes with
// keys of the user's own.
//
// # Errors
//
//   - ErrAuth: the key is wrong, or its role lacks a permission from above.
//   - ErrQuota: the account has no credit, or has reached a quota.
//   - ErrNoCapacity: somebody else was faster; the next offer is taken.
//   - ErrUnsupported: a region has no image, or no optimised network.
//   - ErrRateLimited: too many calls from this address, about 500 a minute.
//
// # What this was checked against
//
// The vendor's description of the API (https://infrahub-api-doc.nexgencloud.com/api.json), its
// SDK (https://github.com/NexGenCloud/hyperstack-sdk-go), and its pages on billing
// (https://infrahub-doc.nexgencloud.com/docs/billing/states-and-billing). No call was made to the
// live service. Not documented, and guessed from the words of clients: how a want of stock or
// of quota is said, how long lists lag, and how a spot machine ends.
package hyperstack
