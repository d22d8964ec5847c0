// Package lambda rents virtual machines from Lambda Cloud, on demand.
//
//	pool, err := gputrain.Open(ctx, lambda.Config{Region: "us-south-2"}, gputrain.Spec{
//		Accelerator: accelerators.H100(), Nodes: 4,
//	})
//
// A node is a machine with whole GPUs, a disk of its own and a public address; its user is
// ubuntu, who may become root. The disk is as large as the type of machine says, whatever
// Spec.DiskGiB is; one that is too small for the spec is not taken.
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
//   - Tags: yes.
//   - Tried against: a fake held to the vendor's API description; not live.
//
// # Credentials
//
// The key is [Config].APIKey, else the variable LAMBDA_API_KEY. Keys are made at
// https://cloud.lambda.ai/api-keys/cloud-api, and have no permissions to choose: one can do
// all that the account can. It is never on a node. The API does not name the account: it is
// told from others by a digest of its key, so that a new key is another account as far as
// ledgers go. Close pools before changing it.
//
// # Offers
//
// An offer is a type of machine in a region that has some free, by Lambda's own word, which
// is not always right: the next offer is taken then. Where the spec and Config name no
// region all count. The GH200 is arm64: a program that sends itself there is built for that,
// and Spec.Arch keeps such machines out. One A100 has 40 GB; those with 80 GB come in eights.
//
// # Launching
//
// The API takes one call a second, and one launch each twelve ([Config].LaunchInterval): ten
// nodes are asked for in two minutes. A machine takes three to fifteen minutes to boot, those
// with eight GPUs the longest. One that comes up unhealthy, which is told of GH200s above
// all, is ended, and another takes its place; so is one whose GPUs are not what
// nvidia-smi should tell, or which CUDA cannot use: some H100s are told to come up with its
// error 802, which is given three minutes to pass.
//
// [Config].ImageFamily is what nodes start from. By default that is the newest Lambda Stack,
// which has a driver, CUDA and the usual frameworks.
//
// # Billing
//
// By the minute, for the whole machine, from when its health checks pass until it is
// terminated. There is no spot, and no stopping: a machine that shuts itself down goes on
// being billed. File systems ([Config].FileSystems) are billed by themselves
// for as long as they exist, and are neither made nor removed here.
//
// # When the client is gone
//
// Nothing on a machine can end its billing, as only the account's key could. [gputrain.Reap]
// does, by the ledger of the computer. From another one it goes by the machines' tags, which
// cannot be changed: they tell when the pool's TTL is over, and not whether its program
// lives, so that a pool without a Spec.TTL whose machines run is left alone. The
// pool's key among the account's SSH keys is found by its name, "gputrain-" and the pool.
//
// # Host keys
//
// Each machine is given its host key before it boots, by its user data, and is held to that.
//
// # Errors
//
//   - ErrAuth: the key is wrong, expired, or deleted.
//   - ErrQuota: the account may not have more, is inactive, or lacks a billing address, which
//     its settings at https://cloud.lambda.ai/ have.
//   - ErrNoCapacity: the region has run out; the next one is tried.
//   - ErrInvalid: such as a file system in another region, or an image family that is unknown.
//   - ErrRateLimited: other programs use the account; it may be shut out for a minute.
//
// # What was verified
//
// The driver was written after Lambda's description of its API, version 1.8.3
// (https://docs-api.lambda.ai/api/cloud), and its pages on billing and instances
// (https://docs.lambda.ai/public-cloud/). Every call is held against that
// description, at a fake of the API. None was made against Lambda itself.
package lambda
