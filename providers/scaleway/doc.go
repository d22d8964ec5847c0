// Package scaleway rents GPU instances from Scaleway.
//
//	pool, err := gputrain.Open(ctx, scaleway.Config{Zone: "fr-par-2"}, gputrain.Spec{
//		Accelerator: accelerators.L4(),
//	})
//
// A node is a virtual machine with root, a volume of block storage and a dynamic public
// address. A spec without accelerators also gets types that have none.
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
//   - Tags: yes; Spec.Tags as words like team=vision, on servers and volumes.
//   - Tried against: a fake held to the vendor's API descriptions; not live.
//
// # Credentials
//
// [Config].SecretKey is the secret half of an API key, else the variable SCW_SECRET_KEY;
// [Config].ProjectID, else SCW_DEFAULT_PROJECT_ID, is the project. Keys are made at
// https://console.scaleway.com/iam/api-keys. They need the permission sets InstancesFullAccess
// and BlockStorageFullAccess in that project. With IAMReadOnly, too, the pool knows the quota of
// each type before it launches one. The pool registers no SSH key, because Scaleway
// would put it onto every machine of the project that boots meanwhile. A node gets the pool's
// key by its own user data, and by its tag AUTHORIZED_KEY. Scaleway also puts the project's
// keys onto the node: their holders can log in to it.
//
// The security group is the project's default one, which lets everything in unless it was
// changed. It must let port 22 in.
//
// # Zones and images
//
// Without [Config].Zone all zones are asked. Spec.Regions may name regions or zones. Images
// have different IDs in each zone: [DefaultImages] are labels of Scaleway's marketplace, and
// the first one that fits the type of machine is used. If [Config].Image is an ID, and
// [Config].Zone is empty, the zone of the image is looked up, among the project's images and the
// public ones, and only machines there can be launched. The disk is a volume of Spec.DiskGiB, or
// of 100 GB if that is zero; the image's own would have 10 GB.
//
// # Prices in euros
//
// Scaleway's prices are in euros. An offer's price is that times [Config].USDPerEUR, or the rate
// in the variable GPUTRAIN_USD_RATES, or a round figure: no rate is looked up, and MaxHourlyUSD
// and BudgetUSD bound euros at that rate. The price is without tax, and without the volume and
// the address, which are billed by time as well: the API tells no prices of them. The warnings of
// each offer say both.
//
// # Billing
//
// By the minute, from the start of the server; RENDER-S by the hour.
// A stopped server is still billed for its volume. A server that is "stopped in place" is
// billed in full, and so, as far as is known, is a server that was shut down from inside.
// There is no spot. Terminating a server detaches its volume, which is billed until it is
// deleted too: this package does both, and waits for the first, which takes a minute or two.
// Volumes have the tags of their servers, so that a leftover one is listed, as "volume", and
// removed by [gputrain.Reap]. Volumes that a user attached are detached, not deleted.
//
// Three calls make a server, set what it boots with, and start it. Only the last one reports
// that a zone is out of stock: the server is then deleted with its volume.
//
// # When the client is gone
//
// Nothing on a node can end its billing: that takes a call with the account's key, which is not
// put on nodes, and a shutdown from inside does not end it. A key of an IAM application can
// expire and be limited to a project, but not to one server: with it, a node could end and rent
// all servers of the project, and it takes rights over the organization to make one. So nodes
// have no timer.
// [gputrain.Reap] ends the leftovers of a dead program: by the computer's ledger, and by the
// tags of servers and volumes, which hold the pool, its program and the end of its lease. The
// tags are renewed while a pool is open.
//
// # Host keys
//
// A node gets its host key by cloud-init. Scaleway's images also publish the fingerprints of
// the keys that they really use, which this package reads: a node is ready once they are
// published, or after a minute without any. The node must show the key that it got or, if the
// image has published others, one of all these. Both come through the account; the first
// contact decides nothing.
//
// # Errors
//
//   - ErrAuth: the key is wrong, lacks a permission set, or the account is locked.
//   - ErrQuota: an account may have no GPUs until its identity is checked.
//   - ErrNoCapacity: the zone is out of stock.
//   - ErrNoOffers: see Zone, Regions and Image: a type without an image, out of stock or at its
//     end of service is offered with the reason why it cannot be launched. The API tells no
//     balance, as accounts pay by invoice.
//
// # What this was made from
//
// The descriptions of Scaleway's Instance v1, Block Storage v1 and Marketplace v2 APIs
// (https://www.scaleway.com/en/developers/api/) and the sources of its Go SDK and command line
// (https://github.com/scaleway/scaleway-sdk-go, https://github.com/scaleway/scaleway-cli), and
// of its IAM v1alpha1 API for quotas.
// Tests run against a fake that follows the first. No call was made to the service itself.
// Uncertain are the names of the quotas of types (cp_servers_type_L4_1_24G); the form of the published fingerprints, of which all in SHA-256 are accepted;
// the status of an out-of-stock answer, which is recognised by its type; the allowed calls a
// second; and the lag of lists, assumed to be 5 seconds.
package scaleway
