// Package runpod rents pods from RunPod: containers with GPUs in its own data centres
// (secure cloud) and at others' (community cloud), on demand and as spot, and whole
// Instant Clusters.
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
//   - Private network: with [Config].GlobalNetworking or [Config].ClusterMode.
//   - Ends itself: yes, by its lease, with the pod's own key; members of a cluster do not.
//   - Host key pinned by: the pool's own key, put in at start.
//   - Tags: yes: name and environment.
//   - Tried against: fakes held to its REST v2 description and a derived GraphQL one; the start
//     script in a real container; not live.
//
// # Credentials
//
// An API key from RunPod's console (Settings, API Keys), in RUNPOD_API_KEY, in
// Config.APIKey, or where runpodctl keeps it: ~/.runpod/config.toml. It needs to read
// and write pods, and to read the catalogue, registries, network volumes and clusters;
// for clusters to write these too. Spot, countries, line speeds and TerminateAfter
// need GraphQL. A key without that works for the rest, but a community pod may then have no
// public address, and is given up after ProvisionTimeout.
//
// # Two APIs
//
// REST v2 does whatever it can. GraphQL, which RunPod has announced to end early in
// 2027, does what v2 lacks: spot pods with their prices, and the on-demand pods of
// CountryCodes, ExcludeCountryCodes, MinDownloadMbps, MinUploadMbps and TerminateAfter,
// and of the community cloud, which v2 cannot ask for a public address.
// It also tells the price of clusters, and whose the key is. Once it is gone these
// fail as [gputrain.ErrUnsupported], naming what does not work any more, and a pool
// that may be rented on demand is. A key then stands for its account: Attach and Reap
// go on finding a pool by the key that it was opened with, and not by another.
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
//	Ubuntu              newest       24.04, of the default image
//	MinCUDAVersion      12.8         with the default image
//	RegistryAuth        docker hub   a credential of the account, by its name
//	ContainerDiskGB     50           20 for pods without GPU
//	VolumeGB            20           at VolumeMountPath, /workspace
//	Ports               22/tcp       always there
//	CPUClock            3c           pods without GPU are cpu3c
//	BidMultiplier       1            of the lowest bid that is taken
//	TerminateAfter      false        spot pods have it always
//	ProvisionTimeout    10 minutes   from launch until SSH answers
//	RequestTimeout      30 seconds   of one call; GraphQL has twice that
//	Endpoint            https://api.runpod.io
//	PodEndpoint         https://api.runpod.io, for pods that end themselves
//
// Where neither data centres nor countries are set, Spec.Regions chooses: data centres of the
// secure cloud by their names or the beginnings of them ("US-TX-3", "US"), and countries of
// the community cloud ("FR").
//
// How long the preparation of a node may take is Image.PhaseTimeout of the Spec, and how long
// a node lives without its client Spec.Lease. A network volume is attached by
// Spec.Mounts: Source is its ID or its name, and the pool goes where the volume is.
//
// # What a node is
//
// A container of Config.Image, whose start command is replaced: it installs an SSH server
// with the image's package manager where there is none, and puts the pool's key and the
// node's host key in place. So the first connection is to the right machine, and the
// account's SSH keys are not touched. An image whose entry point does not run the
// command that it is given does not come up. Nodes log in as root by the port that
// RunPod publishes, never by its proxy. The host key travels in the pod's environment,
// which RunPod shows to the account, and to nobody else.
//
// RunPod has no tags: pods are named gputrain-POOL-RANK, and carry in their environment
// (GPUTRAIN_TAG_...) whose they are. Two nodes reach each other by
// Node.PrivateAddr where they have global networking (about 100 Mbit/s: enough to meet,
// not to train) or are a cluster's (1600 to 3200 Gbit/s; NCCL_SOCKET_IFNAME is ens1).
//
// # Billing
//
// By the second, from when a pod is allocated, with the pulling of its image. Disks cost
// $0.10 per GB and month, and $0.20 once a pod is stopped: so nothing here stops a pod,
// and one that was stopped is deleted. Network volumes bill until you delete them. An
// account needs an hour's worth of credit to rent, and may spend $80 an hour at first.
// The price of an offer is RunPod's list price, and that of spot is the bid; what a pod
// really costs is asked for when it is there, and counts.
//
// A spot pod can be stopped at any time, with a few seconds' notice that nobody promises.
//
// # When the client is gone
//
// A node whose lease or TTL runs out deletes its pod, by the key that RunPod gives every
// pod for itself. A pod that no client has reached within ProvisionTimeout and the lease
// does so too, and any ten minutes after the pool's TTL; where RunPod has a timer
// (spot, TerminateAfter) it also ends the pod then. A member of an Instant Cluster
// cannot leave it and has no key for it: its client, or [gputrain.Reap], ends the cluster.
// The members of a cluster end together, so that none is replaced.
//
// Nothing is noted on a pod while it runs: nobody has verified that RunPod's update of a pod,
// which v1 announced to be possibly a reset of it, leaves alone what runs there. So Reap on
// another computer ends no running pod, which ends itself, and no running cluster, before the
// pool's TTL is over. Give a pool of an Instant Cluster a Spec.TTL.
//
// # Errors
//
//	ErrNoCapacity   "no longer any instances available": another GPU, cloud or region, or a smaller disk
//	ErrQuota        no credit left: add funds; or a kind of pod that is closed to the account
//	ErrAuth         the key is wrong, or may not do this
//	ErrRateLimited  after several attempts; RunPod's limits are by the minute, the hour and the day
//	ErrUnsupported  a combination that RunPod does not take, or an API that has ended
//	ErrNotFound     a network volume or registry credential that the account does not have
//
// # What is verified
//
// Against RunPod's description of REST v2 and a derived one of GraphQL, with a fake of
// both. Nothing was tested against the live service. How long lists lag, and for how
// long a create goes on that nobody waits for, are guesses: five seconds and a minute.
package runpod
