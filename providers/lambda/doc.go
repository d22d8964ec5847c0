// Package lambda rents virtual machines from Lambda Cloud, on demand.
//
//	pool, err := gputrain.Open(ctx, lambda.Config{Region: "us-south-2"}, gputrain.Spec{
//		Accelerator: accelerators.H100(), Nodes: 4,
//	})
//
// A node is a machine with whole GPUs, a disk of its own and a public address. Its user is
// ubuntu, which may become root. The type of machine determines the size of the disk, whatever
// Spec.DiskGiB is; a type whose disk is too small for the spec is not offered.
//
// # At a glance
//
//   - GPUs: NVIDIA (A10 to B200, GH200 on ARM) by type of machine.
//   - Spot: no.
//   - Regions: [Config].Region.
//   - Credentials: LAMBDA_API_KEY.
//   - Billing: by the minute; ended by terminate.
//   - Private network: no.
//   - Ends itself: no: until [gputrain.Reap].
//   - Host key pinned by: the pool's own key, by cloud-init.
//   - Tags: yes; Spec.Tags with names in lower case.
//   - Tried against: a fake held to the vendor's API description; not live.
//
// # Credentials
//
// The key is [Config].APIKey, else the variable LAMBDA_API_KEY, else api_key in
// ~/.lambda_cloud/lambda_keys. Keys are made at
// https://cloud.lambda.ai/api-keys/cloud-api; they have no permissions to choose from, and have
// all rights of the account. It is never on a node. The API does not name the account: a digest
// of the key identifies it, so that a new key is another account for ledgers. Close pools
// before changing it.
//
// # Offers
//
// An offer is a type of machine in a region that has some free. Lambda's report of that is not
// always right; the pool then takes the next offer. If neither the spec nor Config names a
// region, all count; their descriptions name the countries for Spec.Countries. Types that are
// sold out, or free only in other regions than [Config].Region, are offered with the reason why
// they cannot be launched. The GH200 is arm64: a program that sends itself there is built for that,
// and Spec.Arch excludes such machines. A single A100 has 40 GB; those with 80 GB come in
// eights.
//
// # Launching
//
// The API allows one call a second, and one launch each twelve seconds
// ([Config].LaunchInterval): ten nodes take two minutes. A machine takes three to fifteen
// minutes to boot, the longest with eight GPUs. A machine that comes up unhealthy, as users
// report mostly of GH200s, is ended and replaced; so is one whose GPUs nvidia-smi does not
// report as offered, or which CUDA cannot use. Users report that some H100s come up with CUDA's
// error 802; it has three minutes to pass.
//
// Nodes start from [Config].ImageFamily. The default is the newest Lambda Stack, which has a
// driver, CUDA and the usual frameworks.
//
// # Billing
//
// By the minute, for the whole machine, from the time when its health checks pass until it is
// terminated. The API tells neither a balance nor quotas. There is no spot, and machines cannot
// be stopped: one that shuts itself down is
// still billed. File systems ([Config].FileSystems) are billed by themselves as long as they
// exist, and are neither made nor removed here.
//
// # When the client is gone
//
// Nothing on a machine can end its billing, as only the account's key could, and keys have no
// limits: each can end and launch all machines of the account. [gputrain.Reap]
// does, by the computer's ledger. On another computer it relies on the machines' tags, which
// cannot be changed: they hold the end of the pool's TTL, but not whether its program is
// alive, so that a pool without a Spec.TTL whose machines run is left alone. The pool's key
// among the account's SSH keys is found by its name, "gputrain-" and the pool.
//
// # Host keys
//
// Each machine gets its host key by its user data before it boots, and must show it.
//
// # Errors
//
//   - ErrAuth: the key is wrong, expired, or deleted.
//   - ErrQuota: the account may not have more, is inactive, or lacks a billing address: see its
//     settings at https://cloud.lambda.ai/.
//   - ErrNoCapacity: the region has run out; the pool takes the next offer.
//   - ErrInvalid: such as a file system in another region, or an image family that is unknown.
//   - ErrRateLimited: other programs use the account; it may be shut out for a minute.
//
// # What was verified
//
// The driver follows Lambda's description of its API, version 1.8.3
// (https://docs-api.lambda.ai/api/cloud), and its pages on billing and instances
// (https://docs.lambda.ai/public-cloud/). A fake of the API checks every call against that
// description. No call was made to Lambda itself.
package lambda
