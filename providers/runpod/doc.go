// Package runpod rents pods from RunPod: containers with GPUs in its own data centres (secure
// cloud) and at others' (community cloud), on demand and as spot, and Instant Clusters.
//
//	pool, err := gputrain.Open(ctx, runpod.Config{}, gputrain.Spec{
//		Accelerator: accelerators.H100(accelerators.Count(8)), Nodes: 2,
//	})
//
// # At a glance
//
//   - GPUs: pods of RunPod, secure and community, and Instant Clusters.
//   - Spot: yes: bids.
//   - Regions: [Config].DataCenterIDs, [Config].CountryCodes.
//   - Credentials: RUNPOD_API_KEY.
//   - Billing: by the second; ended by DELETE /v2/pods/{id}.
//   - Private network: with Spec.Network, [Config].GlobalNetworking or [Config].ClusterMode.
//   - Ends itself: yes, by its lease, with the pod's own key; members of a cluster do not.
//   - Host key pinned by: the pool's own key, put in at start.
//   - Tags: yes: name and environment; none of the user's own.
//   - Tried against: fakes held to its REST v2 description and a derived GraphQL one; the start
//     script in a real container; not live.
//
// # Credentials
//
// An API key from RunPod's console (Settings, API Keys), in RUNPOD_API_KEY, in Config.APIKey,
// or in runpodctl's ~/.runpod/config.toml, of its profile [default] if it has profiles. It must be allowed to read and write pods, and to
// read the catalogue, registries, network volumes and clusters; for clusters also to write
// these. Spot, countries, line speeds and TerminateAfter need GraphQL. Other features work
// without it, but a community pod may then have no public address, and is given up after
// ProvisionTimeout.
//
// # Two APIs
//
// REST v2 does everything that it can. GraphQL does what v2 lacks: spot pods with their prices,
// and the on-demand pods of CountryCodes, ExcludeCountryCodes, MinDownloadMbps, MinUploadMbps
// and TerminateAfter, and of the community cloud, for which v2 cannot ask for a public address.
// It also reports the prices of clusters, and the key's account with its credit and spend limit. RunPod has announced the end of
// GraphQL for early 2027. After that these features fail as [driver.ErrUnsupported] with the
// name of the feature, and a pool that may be rented on demand is. A key then stands for its
// account: Attach and Reap find a pool only by the key that it was opened with.
//
// # Parameters
//
//	Cloud               secure       or community, all
//	ClusterMode         individual   or instant: one cluster for all nodes, which needs two of them and GPUs
//	GlobalNetworking    auto         for two nodes and more, NVIDIA, secure, on demand, by v2
//	DataCenterIDs       anywhere     one offer for each
//	CountryCodes        all          one offer for each; also ExcludeCountryCodes
//	MinDownloadMbps     none         also MinUploadMbps
//	Image               nvidia/cuda:12.8.0-cudnn-runtime-ubuntu24.04; ubuntu:24.04 without NVIDIA GPUs
//	Ubuntu              newest       24.04, of the default image; also 22.04 and 20.04
//	MinCUDAVersion      12.8         or what the image's name says, with NVIDIA GPUs
//	RegistryAuth        docker hub   a credential of the account, by its name; "none" for none
//	ContainerDiskGB     50           20 for pods without GPU; if it is not set, Spec.DiskGiB of any size
//	VolumeGB            20           at VolumeMountPath, /workspace
//	Ports               22/tcp       always there; Instance.Ports has where the internet reaches them
//	CPUClock            3c           pods without GPU are cpu3c
//	BidMultiplier       1            of the lowest bid that is taken
//	TerminateAfter      false        spot pods have it always
//	ProvisionTimeout    10 minutes   from launch until SSH answers
//	BootstrapTimeout    none         of all phases of the Spec's Image together
//	InstanceTimeout     5 minutes    for which a pod with SSH waits for its pool
//	RequestTimeout      30 seconds   of one call; GraphQL has twice that
//	Endpoint            https://api.runpod.io
//	PodEndpoint         https://api.runpod.io, for pods that end themselves
//
// If neither data centres nor countries are set, Spec.Regions and Spec.Countries choose: data
// centres of the secure cloud by their names ("US-TX-3"), prefixes of them ("EU") or countries
// ("RO"), and countries of the community cloud ("FR"). If these are empty too, RunPod chooses the
// place, and an offer has no country.
//
// [gputrain.Plan] shows types of GPU with the wanted accelerator that cannot be had now, with the
// reasons: sold out, in another cloud, without network volumes or global networking. RunPod does not
// tell on which host a pod will be.
//
// The Spec's Image.PhaseTimeout bounds each phase of the preparation of a node, and Spec.Lease the life of a
// node without its client. Spec.Mounts attaches a network volume: Source is its ID or its name,
// and the pool is rented where the volume is.
//
// # What a node is
//
// A container of Config.Image with another start command: it installs an SSH server with the
// image's package manager if there is none, and writes the pool's key and the node's host key.
// So the first connection is verified, and the account's SSH keys are not touched. An image
// whose entry point does not run the given command does not come up. Logins are as root, by the
// port that RunPod publishes, never by its proxy. The host key is in the pod's environment,
// which RunPod shows only to the account.
//
// RunPod has no tags: pods are named gputrain-POOL-RANK, and their environment
// (GPUTRAIN_TAG_...) identifies their owner. Two nodes reach each other by Node.PrivateAddr
// with global networking (about 100 Mbit/s: enough to meet, not to train) or in a cluster (1600
// to 3200 Gbit/s; NCCL_SOCKET_IFNAME is ens1). With Spec.Network of NetworkPrivate pods that global
// networking cannot join are rejected with the reason, and the others have a warning of its speed.
//
// # Billing
//
// By the second, from the allocation of a pod, including the pull of its image. Disks and volumes
// cost $0.10 per GB and month; a stopped pod's volume costs $0.20: so gputrain stops no pod, and
// deletes stopped ones. Traffic is free. The price of an offer has the parts "machine", RunPod's list
// price or the bid for spot, "disk" and "volume", at a 720th of a month for an hour. The real price
// of the machine is read once the pod exists, and replaces that. It is not verified that RunPod
// reports it without the storage, as its console shows it. Network volumes are billed until the user
// deletes them, and are in no price.
//
// An account needs an hour's worth of credit to rent, and may spend $80 an hour at first. GraphQL
// tells both: nothing is launched without the credit, or beyond the spend limit.
//
// RunPod can stop a spot pod at any time, with a few seconds' notice that it does not
// guarantee.
//
// # When the client is gone
//
// A node whose lease or TTL runs out deletes its pod, with the key that RunPod gives every pod
// for itself. A pod that no client has taken over within InstanceTimeout after its SSH server
// has begun does so too, and so does any pod ten minutes after the pool's TTL. If RunPod has a timer (spot,
// TerminateAfter), RunPod also ends the pod then. A member of an Instant Cluster cannot leave
// it and has no key for it: its client, or [gputrain.Reap], ends the cluster. The members of a
// cluster end together, so that none is replaced.
//
// Nothing is recorded on a running pod: it is not verified that RunPod's update of a pod, which
// may be a reset according to v1, leaves its processes alone. So Reap on another computer ends
// no running pod (pods end themselves), and no running cluster, before the pool's TTL is over.
// Give a pool of an Instant Cluster a Spec.TTL.
//
// # Errors
//
//	ErrNoCapacity   "no longer any instances available": another GPU, cloud or region, or a smaller disk
//	ErrBalance      too little credit: add funds
//	ErrQuota        the account's spend limit, or a kind of pod that is closed to the account
//	ErrAuth         the key is wrong, or may not do this
//	ErrRateLimited  after several attempts; RunPod's limits are by the minute, the hour and the day
//	ErrUnsupported  a combination that RunPod does not take, or an API that has ended
//	ErrNotFound     a network volume or registry credential that the account does not have
//
// # What is verified
//
// RunPod's description of REST v2 and a derived one of GraphQL, with a fake of both. Nothing
// was tested against the live service. The lag of lists (five seconds), and the time for which
// a create may go on after its caller has given up (a minute), are estimates.
package runpod
