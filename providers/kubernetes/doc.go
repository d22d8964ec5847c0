// Package kubernetes runs the nodes of a pool as pods of Kubernetes clusters: those of a lab, a
// company or a cloud. It needs nothing in the cluster but the rights to make Jobs, and on this
// computer nothing but a kubeconfig: kubectl is not called.
//
//	pool, err := gputrain.Open(ctx, kubernetes.Config{}, gputrain.Spec{
//		Nodes: 2, Accelerator: accelerators.A100(accelerators.Count(4)), TTL: 8 * time.Hour,
//	})
//
// # At a glance
//
//   - GPUs: those of the cluster's nodes, by their labels: NVIDIA, whole or by MIG; AMD; others by
//     [Config].GPUResource and [Config].GPUNames.
//   - Spot: yes, if labels of cluster nodes or [Config].Shapes say so.
//   - Regions: the contexts of the kubeconfig: [Config].Contexts.
//   - Credentials: a kubeconfig (KUBECONFIG, [Config].Kubeconfig), or a pod's service account.
//   - Billing: free, or as [Config].PriceByGPU and [Config].Shapes say; "delete job" ends a node.
//   - Private network: yes: the pods' addresses.
//   - Ends itself: yes, by its lease; the cluster ends it at the end of its TTL.
//   - Host key pinned by: the pool's own key, in a Secret.
//   - Tags: yes: labels, also for Spec.Tags.
//   - Tried against: Kubernetes 1.34 with two nodes whose GPUs are counted and not there, and a fake.
//
// # What a node is
//
// A node is a Job of one pod, named like the node, and a Secret of the same name with its host key,
// which belongs to the Job. The Job is made first, and the pod waits for the Secret. Nothing else is
// made: no Service, no ingress, no object for the pool. So a node ends without any program. The Job
// has a deadline: five minutes until it has its Secret, and then the TTL, or 30 days without one. A pod whose lease has lapsed ends, and so
// does one that no program has reached within a lease. The cluster removes a Job that is over, with
// its pod and Secret, after a minute.
//
// Jobs and pods have the labels gputrain.dev/pool, rank and node, and the annotations
// gputrain.dev/owner, created, lease, lease-until, expires, host-key and user. To see all nodes, and
// to end those of a pool by hand:
//
//	kubectl get jobs,pods -l gputrain.dev/pool
//	kubectl delete jobs -l gputrain.dev/pool=POOL
//
// The image is any with sh. One of the Debian, Alpine or Red Hat family without an SSH server gets
// one when a node starts. A pod has exactly the GPUs of its offer; the memory of the spec, which is a
// limit; the vCPUs and the disk of the spec, which are reserved. /dev/shm is half the memory. Without
// Spec.MemoryGiB the pod has no limit, and shares its cluster node's memory with others.
//
// Spec.Mounts are persistent volume claims of the namespace: Source is "pvc:NAME".
//
// # Connections
//
// A node is reached through the API server by port forwarding: over WebSocket (Kubernetes 1.31), or
// SPDY if a server or a proxy refuses that. [Config].Reach chooses exec, for clusters that forbid port
// forwarding, or the pods' addresses, which ReachAuto tries first inside the cluster. Each SSH
// connection has one of its own. A connection that is cut, as by an API server that restarts, costs
// no node and no task.
//
// # Rights
//
// The file role.yaml of this package has the least rights: Jobs, their pods, one Secret each, which is
// created and never read, port forwarding, events, and for offers the list of nodes. Open reports the
// rights that are missing. Without those of the cluster's nodes, [Config].Shapes are the offers;
// without events, less is known about why a node waits; without the right to delete pods, an end takes
// 30 seconds.
//
// # Waiting
//
// A Job is accepted whether there is room or not. Its node then waits, with the scheduler's words in
// an event, for up to [Config].PendingTimeout: then the driver deletes it, with
// [driver.ErrNoCapacity]. So a cloud after the cluster in gputrain.FirstOf gets its turn. A quota that
// is used up is [driver.ErrQuota] at once; a pod that a policy forbids, and an image that cannot be
// pulled for two minutes, are [driver.ErrInvalid]. With [Config].Autoscaled a machine that is being
// made lengthens the wait. With [Config].Queue Kueue starts the Jobs, one by one: half of a pool may
// start, and is given up after PendingTimeout with what the pool's own time limits say.
//
// An offer's affinity names all label values that mean its GPU, never a cluster node.
//
// # Preemption
//
// A pod that is preempted or evicted goes on for 30 seconds, if the cluster lets it, and its script
// knows for how long. The pool looks for that notice on spot nodes only. A preempted node fails its Job,
// whose policy keeps the reason when the pod is gone.
//
// A pod on a cluster node that does not answer counts as lost after a minute. It may still run there,
// with its GPUs, until the cluster node is back or removed; after five minutes, and with the right to
// see that, Terminate forgets it.
//
// # What is not done
//
// There is no gang scheduling: JobSet, Volcano and Kueue's pod groups need parts of their own in the
// cluster. Dynamic resource allocation, RDMA devices and host networks are not asked for. Network
// policies are the cluster owner's: one that keeps the pool's pods from each other breaks gangs. With
// [Config].Istio a pod does not end by itself, since its sidecar does not. Nodes that are made of an
// image without an SSH server install it at each start. [Config].Unprivileged runs as user 1000, which
// OpenShift's default constraints refuse, as they choose the user. Registries' logins are Secrets that exist:
// [Config].PullSecrets. Not tried with real parts: Kueue, autoscalers, Istio, device plugins,
// OpenShift, Windows nodes, virtual kubelets, load balancers that cut streams.
package kubernetes
