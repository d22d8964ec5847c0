// Package scaleway rents GPU instances from Scaleway.
//
//	pool, err := gputrain.Open(ctx, scaleway.Config{Zone: "fr-par-2"}, gputrain.Spec{
//		Accelerator: accelerators.L4(),
//	})
//
// A node is a virtual machine with root, a volume of block storage and a dynamic public
// address. A spec that asks for no accelerator also gets types that have none.
//
// # At a glance
//
//   - GPUs: NVIDIA (L4, L40S, H100, B300) by type.
//   - Spot: no.
//   - Regions: [Config].Zone.
//   - Credentials: SCW_SECRET_KEY, SCW_DEFAULT_PROJECT_ID.
//   - Billing: by the minute, in EUR; ended by terminate, and the deletion of its volume.
//   - Private network: no.
//   - Ends itself: no: until [gputrain.Reap].
//   - Host key pinned by: the pool's own key, by cloud-init, or the fingerprints that the image
//     publishes.
//   - Tags: yes.
//   - Tried against: a fake held to the vendor's API descriptions; not live.
//
// # Credentials
//
// [Config].SecretKey is the secret half of an API key, else the variable SCW_SECRET_KEY;
// [Config].ProjectID, else SCW_DEFAULT_PROJECT_ID, is the project. Keys are made at
// https://console.scaleway.com/iam/api-keys. They need the permission sets
// InstancesFullAccess and BlockStorageFullAccess in that project. No SSH key is registered:
// Scaleway would put that onto every machine of the project that boots meanwhile. A node
// gets the pool's key by its own user data, and by its tag AUTHORIZED_KEY. The keys that
// the project has, get onto the node as well: who has one of them can log in to it.
//
// The security group is the project's default one, which lets everything in unless it was
// changed: it must let port 22 in.
//
// # Zones and images
//
// Without [Config].Zone all zones are asked, and Spec.Regions may name regions or zones.
// Images have IDs of their own in each zone: [DefaultImages] are labels of Scaleway's
// marketplace, of which the first is taken that is for the type of machine. The disk is a
// volume of Spec.DiskGiB, and of 100 GB where that is zero: the image's own would be 10 GB.
//
// # Prices in euros
//
// Scaleway's prices are in euros. An offer's is that times [Config].USDPerEUR, without tax,
// and without the volume and the address, which are billed per hour as well. The rate is
// not looked up: [DefaultUSDPerEUR] is a round figure, and what MaxHourlyUSD and BudgetUSD
// bound is euros at that rate.
//
// # Billing
//
// By the minute, from the start of the server; types without a GPU, and RENDER-S, by the
// hour. A server that is stopped goes on being billed for its volume, one that is "stopped
// in place" in full, and so, as far as is known, one that was shut down from inside. There
// is no spot. Terminating a server lets go of its volume, which is billed until it is
// deleted too: this package does both, and waits for the first, which takes a minute or two.
// Volumes have the tags of their servers, so that one that was left is listed, as "volume",
// and removed by [gputrain.Reap]. A volume that you attach to a node is let go of, and stays.
//
// A server is made, told what to boot with, and started, by three calls. That a zone is out
// of stock, the last one says: the server is deleted then, with its volume.
//
// # When the client is gone
//
// Nothing on a node can end it: its billing ends by a call with the account's key, which is
// not for nodes, and a shutdown from inside does not end it. So no timer is set there either.
// What a program leaves when it dies, [gputrain.Reap] ends: by the ledger of the computer,
// and by the tags of servers and volumes, which hold the pool, its program and how long that
// is known to live. A pool is marked anew while it is open.
//
// # Host keys
//
// A node is given its host key by cloud-init. Scaleway's images also publish the
// fingerprints of what they really use, which this package reads: a node is ready once they
// are there, or after a minute without any. It is held to the key that it was given, and
// where the image has published others, to one of all these. Both ways are the account's
// own; the first contact decides nothing.
//
// # Errors
//
//   - ErrAuth: the key is wrong, lacks a permission set, or the account is locked.
//   - ErrQuota: an account may have no GPUs until its identity is checked.
//   - ErrNoCapacity: the zone is out of stock.
//   - ErrNoOffers: see Zone, Regions and Image: a type that no image is for is not offered.
//
// # What this was made from
//
// The descriptions of Scaleway's Instance v1, Block Storage v1 and Marketplace v2 APIs
// (https://www.scaleway.com/en/developers/api/) and the sources of its Go SDK and command
// line (https://github.com/scaleway/scaleway-sdk-go, https://github.com/scaleway/scaleway-cli).
// Tests run against a fake that follows the first. No call was made to the service itself.
// Not known for certain are the form of the published fingerprints, of which all in SHA-256
// are taken; the status of an answer that means out of stock, which is told by its type; how
// many calls a second are allowed; and how soon a list has what was made, for which 5 seconds
// are allowed.
package scaleway
