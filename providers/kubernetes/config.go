package kubernetes

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Config runs nodes as pods of Kubernetes clusters. The zero value works if kubectl does.
type Config struct {
	// Kubeconfig names the file with the clusters and credentials, or several as in KUBECONFIG. Its
	// exec plugins and OIDC logins are used. If empty, it is the KUBECONFIG variable, then
	// ~/.kube/config, then the service account of the pod that this program runs in.
	Kubeconfig string
	// Contexts are the contexts of Kubeconfig to use, each of which is a Region of this name. They
	// are read at Open: a later "kubectl config use-context" changes nothing. None means the current
	// context.
	Contexts []string
	// Namespace is where nodes are made. It must exist. If empty, it is the context's, then
	// "default".
	Namespace string

	// Image is the container image of nodes. If empty, it is the spec's Image.Docker, or else
	// DefaultImage. If it has no SSH server, each node installs one when it starts, which takes about
	// a minute and needs the package mirror.
	Image string
	// PullSecrets name Secrets of the namespace that log in to the image's registry. None means that
	// the image is public.
	PullSecrets []string
	// PullPolicy is "Always", "IfNotPresent" or "Never". Empty means the cluster's default.
	PullPolicy string

	// GPUResource is the resource that a node asks for: "amd.com/gpu", "nvidia.com/mig-3g.40gb".
	// Empty means "nvidia.com/gpu".
	GPUResource string
	// GPULabel is the label of cluster nodes whose value names their GPU. Empty means the labels of
	// NVIDIA's and AMD's discovery, GKE, Karpenter and CoreWeave.
	GPULabel string
	// GPUNames are names of accelerators, as accelerators.Parse reads them, by the value of that
	// label. The value "" stands for cluster nodes without the label. A value that is named here is
	// offered even if its GPUs are shared by time slicing or MPS.
	GPUNames map[string]string

	// NodeSelector restricts nodes to cluster nodes with these labels. None means any.
	NodeSelector map[string]string
	// Tolerations allow nodes on cluster nodes with taints. The taints of GPUs, and those of spot
	// machines if spot is asked for, are tolerated in any case.
	Tolerations []Toleration
	// Affinity is the affinity of the pods, as JSON. The driver adds its own node affinity to it.
	Affinity json.RawMessage
	// Queue is a LocalQueue of Kueue, which then decides when nodes start. Empty means none.
	Queue string
	// PriorityClass, RuntimeClass, Scheduler and ServiceAccount are the names in the pod's spec.
	// Empty means the cluster's default. A token is mounted only if ServiceAccount is set.
	PriorityClass, RuntimeClass, Scheduler, ServiceAccount string
	// Unprivileged runs everything as the user "gputrain" (1000), without root, for namespaces with
	// the Pod Security level "restricted". The image must have an SSH server.
	Unprivileged bool

	// ShmSizeGiB is the size of /dev/shm, which counts as the pod's memory. Zero means half of
	// Spec.MemoryGiB, and at least 1; without Spec.MemoryGiB there is no limit.
	ShmSizeGiB float64
	// EphemeralGiB is the request and the limit of ephemeral storage. The cluster evicts a pod that
	// exceeds it. Zero means Spec.DiskGiB, and without that no limit.
	EphemeralGiB float64
	// Volumes are persistent volume claims for every node, beside those of Spec.Mounts.
	Volumes []Volume

	// Autoscaled means that the cluster makes machines for pods that wait: Shapes are offered though
	// no cluster node has them.
	Autoscaled bool
	// Shapes are the machines that an autoscaler can make. They are also the offers if this program
	// may not list the cluster's nodes.
	Shapes []Shape
	// PendingTimeout bounds how long a node may wait for room; then it is given up with
	// ErrNoCapacity. Zero means 5 minutes, or 30 with Autoscaled or Queue.
	PendingTimeout time.Duration
	// PriceByGPU are prices in US dollars for an hour of one GPU, by names of accelerators. None
	// means that nodes are free; otherwise the price of GPUs without an entry is unknown.
	PriceByGPU map[string]float64

	// Labels and Annotations are put on Jobs and pods. The driver's own win.
	Labels, Annotations map[string]string
	// Istio leaves Istio's sidecar in the pods. It breaks NCCL, and a pod with it does not end by
	// itself. False keeps it out.
	Istio bool
	// Reach is how nodes are connected to. Empty means ReachAuto.
	Reach Reach
	// RequestTimeout bounds one attempt at an API call. Zero means 30 seconds.
	RequestTimeout time.Duration
}

// DefaultImage is the nodes' image if neither Config nor the spec names one.
const DefaultImage = "debian:bookworm-slim"

// A Toleration allows pods on cluster nodes with a taint, as in a pod's spec.
type Toleration struct {
	// Key is the taint's. Empty means any key.
	Key string
	// Operator is "Equal" or "Exists". Empty means Equal.
	Operator string
	// Value is the taint's, for Equal.
	Value string
	// Effect is "NoSchedule", "PreferNoSchedule" or "NoExecute". Empty means all.
	Effect string
}

// A Volume is a persistent volume claim of the namespace, mounted on every node.
type Volume struct {
	// Claim is the claim's name, and Path its absolute place on the nodes.
	Claim, Path string
	// ReadOnly forbids writing.
	ReadOnly bool
}

// A Shape is a kind of machine that the cluster can make.
type Shape struct {
	// GPU names the accelerator, as accelerators.Parse reads it. Empty means none.
	GPU string
	// Count is the number of GPUs of a machine, of which a node may have fewer.
	Count int
	// VCPUs and MemoryGiB are a machine's. Zero means unknown.
	VCPUs, MemoryGiB float64
	// Spot is true if the cluster's provider can take the machine back.
	Spot bool
	// NodeSelector has the labels that lead a pod to such a machine. None means none.
	NodeSelector map[string]string
	// HourlyUSD is the price of a whole machine for an hour. Zero means PriceByGPU.
	HourlyUSD float64
}

// A Reach is a way to connect to nodes.
type Reach string

const (
	// ReachAuto connects directly inside the cluster, if that works, and else as ReachForward.
	ReachAuto Reach = "auto"
	// ReachForward uses port forwarding by the API server, over WebSocket, or SPDY if that is
	// refused.
	ReachForward Reach = "forward"
	// ReachExec runs an SSH server for each connection by the API server's exec. It needs the right
	// to create pods/exec.
	ReachExec Reach = "exec"
	// ReachDirect connects to the pods' addresses, which works inside the cluster, or over a VPN.
	ReachDirect Reach = "direct"
)

const (
	providerName   = "kubernetes"
	defaultTimeout = 5 * time.Minute
	queuedTimeout  = 30 * time.Minute
	// imageTime is added to PendingTimeout for the image.
	imageTime = 10 * time.Minute
	// lateEffect is the API server's own limit for a request.
	lateEffect = time.Minute
	// grace is how long a pod goes on after it was told to end.
	grace = 30 * time.Second
	// launchesAtOnce bounds the Jobs that are made at the same time.
	launchesAtOnce = 8
)

var _ driver.Provider = driver.RegisterConfig(Config{})

// Name returns "kubernetes".
func (Config) Name() string { return providerName }

// Open reads the configuration of the clusters, and asks each for its version and for this user's
// rights. It makes nothing. A missing right is [driver.ErrAuth].
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
	a, err := c.open(ctx)
	if err != nil {
		return nil, cloud.Fail(providerName, "open", err, classify)
	}
	return newDriver(a), nil
}

func (c Config) open(ctx context.Context) (*api, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	clusters, err := c.clusters()
	if err != nil {
		return nil, err
	}
	a := newAPI(c.complete(), clusters)
	for _, k := range clusters {
		if err := k.check(ctx, a.cfg); err != nil {
			a.Close()
			return nil, err
		}
	}
	return a, nil
}
