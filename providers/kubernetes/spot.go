package kubernetes

import (
	"cmp"
	"slices"
	"strings"
)

// spotLabels are the labels of machines that a cloud can take back, by the documentation of GKE,
// EKS, Karpenter and AKS.
var spotLabels = []struct{ key, value string }{
	{"cloud.google.com/gke-spot", "true"},
	{"cloud.google.com/gke-provisioning", "spot"},
	{"cloud.google.com/gke-preemptible", "true"},
	{"eks.amazonaws.com/capacityType", "SPOT"},
	{"karpenter.sh/capacity-type", "spot"},
	{"kubernetes.azure.com/scalesetpriority", "spot"},
}

// spotOf returns the expression that a cluster node on spot fits, if it is one.
func spotOf(labels map[string]string) (e expression, spot bool) {
	for _, s := range spotLabels {
		if strings.EqualFold(labels[s.key], s.value) {
			return expression{s.key, "In", []string{labels[s.key]}}, true
		}
	}
	return e, false
}

// gpuTaints are the keys of taints that keep pods without GPUs away.
var gpuTaints = []string{nvidiaResource, "amd.com/gpu", "k8s.amazonaws.com/accelerator", "cloud.google.com/gke-accelerator"}

// tolerations returns those of a pod: the user's, those for GPUs or spot if the pod has these, and
// a short time on lost cluster nodes.
func (c Config) tolerations(gpu, spot bool) []toleration {
	var all []toleration
	for _, t := range c.Tolerations {
		all = append(all, toleration{Key: t.Key, Operator: cmp.Or(t.Operator, "Equal"), Value: t.Value, Effect: t.Effect})
	}
	if gpu {
		for _, key := range slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(gpuTaints), c.GPUResource)))) {
			all = append(all, toleration{Key: key, Operator: "Exists"})
		}
		all = append(all, toleration{Key: "sku", Operator: "Equal", Value: "gpu"}) // AKS
	}
	if spot {
		for _, s := range spotLabels {
			all = append(all, toleration{Key: s.key, Operator: "Exists"})
		}
	}
	seconds := int64(lostAfter)
	for _, key := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
		all = append(all, toleration{Key: key, Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds})
	}
	return all
}

// keepsOut reports whether a taint keeps a pod with these tolerations away.
func (t taint) keepsOut(all []toleration) bool {
	if t.Effect != "NoSchedule" && t.Effect != "NoExecute" {
		return false
	}
	return !slices.ContainsFunc(all, func(o toleration) bool {
		return (o.Key == "" || o.Key == t.Key) && (o.Effect == "" || o.Effect == t.Effect) &&
			(o.Operator == "Exists" || o.Value == t.Value)
	})
}
