package kubernetes

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const nvidiaResource = "nvidia.com/gpu"

// gpuLabels are the labels that name a cluster node's GPU, in the order in which they are looked
// for: of GPU feature discovery (NVIDIA), of AMD's labeller, of GKE, Karpenter on AWS, and
// CoreWeave, by their documentation.
var gpuLabels = []string{
	"nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator",
	"karpenter.k8s.aws/instance-gpu-name", "gpu.nvidia.com/model",
}

// amdDevices are the devices of AMD's older labels, by the hexadecimal PCI ID in the label's key.
var amdDevices = map[string]string{"74a1": "MI300X", "74b5": "MI300X"}

const amdDeviceLabel = "beta.amd.com/gpu.device-id."

// memoryLabels hold the memory of one GPU in MiB.
var memoryLabels = []string{"nvidia.com/gpu.memory", "karpenter.k8s.aws/instance-gpu-memory"}

// gpuLabel returns the label of a cluster node that names its GPU, and its value.
func (c Config) gpuLabel(labels map[string]string) (key, value string) {
	keys := gpuLabels
	if c.GPULabel != "" {
		keys = []string{c.GPULabel}
	}
	for _, key := range keys {
		if value := labels[key]; value != "" {
			return key, value
		}
	}
	for key := range labels {
		if id, ok := strings.CutPrefix(key, amdDeviceLabel); ok && c.GPULabel == "" && amdDevices[id] != "" {
			return key, labels[key]
		}
	}
	return cmp.Or(c.GPULabel, gpuLabels[0]), ""
}

// gpuOf returns one device of a cluster node, and why it is not offered, if it is not.
func (c Config) gpuOf(labels map[string]string) (device accelerators.Accelerator, why string) {
	key, value := c.gpuLabel(labels)
	if name, named := c.GPUNames[value]; named {
		device, err := accelerators.Parse(name)
		if err != nil {
			return accelerators.Accelerator{}, err.Error()
		}
		return device, ""
	}
	if value == "" {
		return accelerators.Accelerator{}, `no label names its GPU; set GPULabel, or GPUNames[""]`
	}
	if s := labels["nvidia.com/gpu.sharing-strategy"]; s == "time-slicing" || s == "mps" || strings.HasSuffix(value, "-SHARED") {
		return accelerators.Accelerator{}, "its GPUs are shared by " + cmp.Or(s, "time slicing") + "; GPUNames can offer them nevertheless"
	}
	if id, ok := strings.CutPrefix(key, amdDeviceLabel); ok {
		value = amdDevices[id]
	}
	if _, part, ok := strings.Cut(c.GPUResource, "/mig-"); ok && !strings.Contains(value, "-MIG-") {
		value += "-MIG-" + part // strategy "mixed": the label names the whole card
	}
	device = cloud.Accelerator(providerName, value, 1, memoryOf(labels), accelerators.Accelerator{})
	return device, ""
}

// memoryOf returns the memory of one GPU in GiB by the labels, or 0.
func memoryOf(labels map[string]string) float64 {
	for _, key := range memoryLabels {
		if mib, err := strconv.ParseFloat(labels[key], 64); err == nil && mib > 0 {
			return math.Round(mib / 1024)
		}
	}
	return 0
}

// devices returns how many of the resource a node of an offer has.
func devices(a accelerators.Accelerator) int {
	if a.IsZero() {
		return 0
	}
	return int(math.Ceil(max(a.Count, 1)))
}

// times returns n of a device. A share of a device stands alone.
func times(device accelerators.Accelerator, n int) accelerators.Accelerator {
	if device.Count > 0 && device.Count < 1 || device.IsZero() {
		return device
	}
	device.Count = float64(n)
	return device
}

// priceOf returns the price of one GPU for an hour, by the longest name of PriceByGPU that means it.
func (c Config) priceOf(device accelerators.Accelerator) (usd float64, known bool) {
	names := make([]string, 0, len(c.PriceByGPU))
	for name := range c.PriceByGPU {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	for _, name := range names {
		if wanted, err := accelerators.Parse(name); err == nil && wanted.Matches(times(device, 1)) {
			return c.PriceByGPU[name], true
		}
	}
	return 0, false
}
