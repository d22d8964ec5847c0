// Package verda rents virtual machines from Verda, which was DataCrunch.
//
//	pool, err := gputrain.Open(ctx, verda.Config{Region: "FIN-03"}, gputrain.Spec{
//		Accelerator: accelerators.H100(accelerators.Count(8)), Allocation: gputrain.SpotIfAvailable,
//	})
//
// A node is a virtual machine with a public address, whose user is root. One call rents one.
//
// # At a glance
//
//   - GPUs: NVIDIA (V100 to B300) by type of machine.
//   - Spot: yes: fixed price.
//   - Regions: [Config].Region, found where it has none.
//   - Credentials: VERDA_CLIENT_ID, VERDA_CLIENT_SECRET.
//   - Billing: by ten minutes; ended by delete.
//   - Private network: no.
//   - Ends itself: no: until [gputrain.Reap].
//   - Host key pinned by: first contact.
//   - Tags: yes.
//   - Tried against: a fake held to a description derived from the vendor's; not live.
//
// # Credentials
//
// An OAuth2 client: [Config].ClientID and ClientSecret, else the variables VERDA_CLIENT_ID and
// VERDA_CLIENT_SECRET. Clients are made in the console, at Keys, Cloud API credentials, and act for one
// project with all of its rights. The API does not name the project: a pool's ledger goes by the ID of the
// client, and only with that one is such a pool attached to and reaped. Keep a client until
// its pools are closed.
//
// # Where
//
// [Config].Region is where nodes are taken from first. Where that has none of a kind, any other place is
// taken that has: nodes of one pool may be in several, and reach each other by their public
// addresses only. Spec.Regions names the only places that are allowed.
//
// # Images
//
// Which images a machine takes depends on its GPU. Without [Config].Image it is that of Ubuntu 24.04
// with the newest CUDA, or that of [Config].CUDA, which the API lists for the machine, and should that
// be refused the next.
//
// # Billing
//
// Prepaid, in steps of ten minutes, for as long as a machine exists: also while it is switched off,
// whether from outside or by a shutdown inside. Only deleting it ends that. The system volume, of
// Spec.DiskGiB or else 100 GB, is billed beside it at about $0.20 for a GB and month, which the prices of
// offers do not include. It is deleted for good together with its machine; what somebody has attached
// beside it is detached, and stays. Volumes are known to be left behind all the same, and billed on: what
// is left of a pool's, the trash included, is listed as a volume, and removed when the pool closes. At a
// balance of zero Verda ends all machines.
//
// # Spot
//
// At a fixed price, lower than on demand. Who is evicted is told nothing ahead: the machine is
// discontinued, and its system volume deleted.
//
// # When the client is gone
//
// Nothing on a node ends its billing: a shutdown does not, and a credential that could delete one
// machine could delete all, so none is put there. A pool whose program has died goes on being billed until
// [gputrain.Reap] ends it. That finds its machines by their tags, which hold the pool, its program and how
// long that is known to live, or else by their description; its volumes by their tags or names; and its
// SSH key by the name.
//
// # Host keys
//
// Verda publishes none, and there is no user data from which a machine could have one before SSH answers:
// the startup script that it has instead runs up to a minute later, and would lie in the project with the
// private key in it. Nor has the API a call for a machine's log or console. So the first contact decides:
// whoever stands between this program and the machine at that moment can take its place, and is given what
// the pool sends, with the secrets of tasks. [gputrain.Spec].RequireKnownHostKey passes over all offers.
//
// # Errors
//
//   - ErrAuth: the client is wrong, or lacks the scope.
//   - ErrQuota: the balance is used up, or a limit of the project is reached.
//   - ErrNoCapacity: none is free there now; the next offer is taken. It may turn out only later: such
//     a machine fails as no_capacity, and is deleted and replaced.
//   - ErrNoOffers: nothing in stock satisfies the spec. Machines for confidential computing and AMD's are
//     offered only to who asks for them by [accelerators.Exact] and the name of the type.
//   - ErrInvalid: Region or an image does not exist, or is not for the machine.
//
// # What this was made from
//
// The description at https://api.verda.com/v1/openapi.json as it stood in a public copy, the clients
// verda-cloud/verdacloud-sdk-go and verda-cloud/sdk-python, and https://docs.verda.com. It is tested
// against a fake of that. No call was ever made of the service itself: how long its lists lag, for one, is
// an estimate.
package verda
