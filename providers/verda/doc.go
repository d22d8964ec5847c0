// Package verda rents virtual machines from Verda, which was DataCrunch.
//
//	pool, err := gputrain.Open(ctx, verda.Config{Region: "FIN-03"}, gputrain.Spec{
//		Accelerator: accelerators.H100(accelerators.Count(8)), Allocation: gputrain.SpotIfAvailable,
//	})
//
// A node is a virtual machine with a public address. Its user is root. One call rents one
// machine.
//
// # At a glance
//
//   - GPUs: NVIDIA (V100 to B300) by type of machine.
//   - Spot: yes: fixed price.
//   - Regions: [Config].Region, found if it has none.
//   - Credentials: VERDA_CLIENT_ID, VERDA_CLIENT_SECRET.
//   - Billing: by ten minutes; ended by delete.
//   - Private network: no.
//   - Ends itself: no: until [gputrain.Reap].
//   - Host key pinned by: first contact.
//   - Tags: yes; at most two of Spec.Tags, on machines and volumes.
//   - Tried against: a fake held to a description derived from the vendor's; not live.
//
// # Credentials
//
// An OAuth2 client: [Config].ClientID and ClientSecret, else the variables VERDA_CLIENT_ID and
// VERDA_CLIENT_SECRET. Clients are made in the console, at Keys, Cloud API credentials, and
// have all rights of one project. The API does not name the project, so a pool's ledger records
// the ID of the client, and only that client can attach to the pool or reap it. Keep a client
// until its pools are closed.
//
// # Where
//
// Nodes come from [Config].Region first. If that has no such machine, any other location that
// has one is used: nodes of one pool may be in several, and reach each other only by their
// public addresses. Spec.Regions and Spec.Countries restrict the locations; the API names their
// countries.
//
// # Images
//
// A machine's images depend on its GPU. Without [Config].Image a node uses the machine's listed
// image with Ubuntu 24.04 and the newest CUDA, or the CUDA of [Config].CUDA. If Verda refuses
// that image, the next one is tried.
//
// # Billing
//
// Prepaid, in steps of ten minutes, for as long as a machine exists, even while it is switched
// off from outside or inside. Only deleting it ends that. The system volume, of Spec.DiskGiB or
// else 100 GB, costs more, as the API's list of volumes says: about $0.20 for a GB and month.
// The price of an offer has it as the part "disk", a month being 730 hours. Prices are asked for
// in dollars; if the API has others, they are converted, at a rate that a warning of the offer
// names. The volume is deleted permanently with its machine. Volumes that a user attached are detached and
// kept. A volume is nevertheless known to stay behind at times and to be billed: a pool's
// leftover volumes, including the trash, are listed and removed when the pool closes. At a
// balance of zero Verda ends all machines: the pool asks for the balance before it rents any.
//
// # Spot
//
// At a fixed price, lower than on demand. There is no notice before an eviction: the machine is
// discontinued and its system volume deleted.
//
// # When the client is gone
//
// Nothing on a node can end its billing: a shutdown does not, and a credential that could
// delete one machine could delete all, so nodes have none. A pool whose program has died is
// billed until [gputrain.Reap] ends it. Reap finds its machines by their tags, which hold the
// pool, its program and the end of its lease, or else by their description; its volumes by
// their tags or names; and its SSH key by the name.
//
// # Host keys
//
// Verda publishes none, and has no user data that could give a machine a key before SSH
// answers. Its startup script runs up to a minute later, and would be stored in the project
// with the private key in it. The API has no call for a machine's log or console, either. So
// the first contact decides: an attacker between this program and the machine at that moment
// can take its place, and receives everything that the pool sends, including the secrets of
// tasks. [gputrain.Spec].RequireKnownHostKey rejects all offers.
//
// # Errors
//
//   - ErrAuth: the client is wrong, or lacks the scope.
//   - ErrBalance: the balance is used up.
//   - ErrQuota: a limit of the project is reached. The API tells no limits before.
//   - ErrNoCapacity: none is free there now; the pool takes the next offer. Sometimes this
//     turns out only later: such a machine fails as no_capacity, and is deleted and replaced.
//   - ErrNoOffers: nothing in stock satisfies the spec. What is sold out is offered with that
//     reason. Machines for confidential computing and AMD's are rented only for
//     [accelerators.Exact] with the name of the type.
//   - ErrInvalid: Region or an image does not exist, or is not for the machine.
//
// # What this was made from
//
// The description at https://api.verda.com/v1/openapi.json, from a public copy, the clients
// verda-cloud/verdacloud-sdk-go (the form of the prices of volumes) and verda-cloud/sdk-python,
// and https://docs.verda.com. The
// tests use a fake of that. No call was ever made to the service itself: the lag of its lists,
// for example, is an estimate.
package verda
