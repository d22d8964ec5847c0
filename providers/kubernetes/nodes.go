package kubernetes

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gputrain/gputrain/accelerators"
)

// amounts are resources of a cluster node or a pod.
type amounts struct {
	vcpus, memoryGiB, diskGiB float64
	gpus                      int
}

// A host is a cluster node that a pod can be on.
type host struct {
	name         string
	device       accelerators.Accelerator // one GPU, or none
	why          string                   // its GPUs are not offered
	label, value string                   // names the GPU
	kind, region string                   // the cloud's words
	arch         string
	spot         bool
	spotTerm     expression
	total, used  amounts
}

// A shape describes all hosts of one kind. Shapes can be compared with ==.
type shape struct {
	device       accelerators.Accelerator
	kind, region string
	arch         string
	spot         bool
	total        amounts
	why          string
}

func (h host) shape() shape {
	return shape{h.device, h.kind, h.region, h.arch, h.spot, h.total, h.why}
}

// hostOf reads a cluster node. ok is false if no pod of this configuration can be there.
func (c Config) hostOf(n node) (h host, ok bool) {
	labels := n.Metadata.Labels
	own, err := parseAffinity(c.Affinity)
	if err != nil || n.Spec.Unschedulable || find(n.Status.Conditions, "Ready").Status != "True" || !own.fits(labels) {
		return h, false
	}
	for key, value := range c.NodeSelector {
		if labels[key] != value {
			return h, false
		}
	}
	h = host{
		name: n.Metadata.Name, kind: labels["node.kubernetes.io/instance-type"], region: labels["topology.kubernetes.io/region"],
		arch: labels["kubernetes.io/arch"], total: c.amountsOf(n.Status.Allocatable),
	}
	h.spotTerm, h.spot = spotOf(labels)
	if h.total.gpus > 0 {
		h.device, h.why = c.gpuOf(labels)
		h.label, h.value = c.gpuLabel(labels)
	}
	return h, true
}

// allows reports whether the taints of a cluster node let such a pod in.
func (c Config) allows(n node, gpu, spot bool) bool {
	all := c.tolerations(gpu, spot)
	return !slices.ContainsFunc(n.Spec.Taints, func(t taint) bool { return t.keepsOut(all) })
}

// amountsOf reads the amounts of resources. It takes an unreadable amount for none.
func (c Config) amountsOf(r map[string]string) amounts {
	const gib = 1 << 30
	return amounts{
		vcpus: quantity(r["cpu"]), memoryGiB: math.Floor(quantity(r["memory"])/gib*100) / 100,
		diskGiB: math.Floor(quantity(r["ephemeral-storage"]) / gib), gpus: int(min(quantity(r[c.GPUResource]), 1024)),
	}
}

// quantity reads a quantity of Kubernetes ("100m", "16Gi"), or takes it for none.
func quantity(text string) float64 {
	if len(text) > 64 {
		return 0
	}
	q, err := resource.ParseQuantity(cmp.Or(text, "0"))
	if err != nil {
		return 0
	}
	if v := q.AsApproximateFloat64(); v > 0 && !math.IsInf(v, 0) {
		return v
	}
	return 0
}

// requestsOf returns what a pod takes from its cluster node: the sum of its containers, and the
// greatest init container if that is more. Init containers that stay count like containers.
func (c Config) requestsOf(p pod) amounts {
	var sum, greatest amounts
	for _, one := range p.Spec.Containers {
		sum = sum.plus(c.amountsOf(one.Resources.Requests))
	}
	for _, one := range p.Spec.InitContainers {
		if r := c.amountsOf(one.Resources.Requests); one.RestartPolicy == "Always" {
			sum = sum.plus(r)
		} else {
			greatest = greatest.most(r)
		}
	}
	return sum.most(greatest)
}

func (a amounts) plus(b amounts) amounts {
	return amounts{a.vcpus + b.vcpus, a.memoryGiB + b.memoryGiB, a.diskGiB + b.diskGiB, a.gpus + b.gpus}
}

func (a amounts) most(b amounts) amounts {
	return amounts{max(a.vcpus, b.vcpus), max(a.memoryGiB, b.memoryGiB), max(a.diskGiB, b.diskGiB), max(a.gpus, b.gpus)}
}

// fit returns how many pods of these amounts a host has room for.
func (h host) fit(wanted amounts) int {
	times := math.MaxInt32
	for _, pair := range [][2]float64{
		{h.total.vcpus - h.used.vcpus, wanted.vcpus}, {h.total.memoryGiB - h.used.memoryGiB, wanted.memoryGiB},
		{h.total.diskGiB - h.used.diskGiB, wanted.diskGiB}, {float64(h.total.gpus - h.used.gpus), float64(wanted.gpus)},
	} {
		if pair[1] > 0 {
			times = min(times, max(int(math.Floor(pair[0]/pair[1]+1e-9)), 0))
		}
	}
	return times
}

// text names a shape, uniquely within its cluster.
func (s shape) text(n int) string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	text := cmp.Or(s.kind, "node") + "/" + number(s.total.vcpus) + "cpu-" + number(s.total.memoryGiB) + "gib-" + number(s.total.diskGiB) + "disk"
	if !s.device.IsZero() {
		text += "/" + times(s.device, n).String() + "-of-" + strconv.Itoa(s.total.gpus)
	}
	for _, part := range []string{s.arch, s.region} {
		if part != "" {
			text += "/" + part
		}
	}
	if s.spot {
		text += "/spot"
	}
	return text
}
