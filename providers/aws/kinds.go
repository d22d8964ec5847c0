package aws

import (
	"math"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// leastMemoryGiB is the memory that a node's system needs. t4g.nano has less.
const leastMemoryGiB = 1

// A kind has the properties of an instance type that the driver uses.
type kind struct {
	name        string
	arch        string // by Go's name
	vcpus       float64
	memoryGiB   float64
	accelerator accelerators.Accelerator
	spot        bool
	onDemand    bool
	block       bool // sold by capacity block
	burstable   bool
	fabric      bool   // it has an Elastic Fabric Adapter, which gputrain does not set up
	unfit       string // why the configuration cannot use it, or ""; if so, the rest is not known
	zones       []string
	image       image
}

// kindOfType reads an instance type. ok is false if gputrain cannot use it: it is not sold, needs
// dedicated hardware, or has devices of several kinds.
func kindOfType(t types.InstanceTypeInfo) (k kind, ok bool) {
	k = kind{
		name:      string(t.InstanceType),
		spot:      slices.Contains(t.SupportedUsageClasses, types.UsageClassTypeSpot),
		onDemand:  slices.Contains(t.SupportedUsageClasses, types.UsageClassTypeOnDemand),
		block:     slices.Contains(t.SupportedUsageClasses, types.UsageClassTypeCapacityBlock),
		burstable: sdk.ToBool(t.BurstablePerformanceSupported),
	}
	if t.NetworkInfo != nil {
		k.fabric = sdk.ToBool(t.NetworkInfo.EfaSupported)
	}
	if t.VCpuInfo != nil {
		k.vcpus = float64(sdk.ToInt32(t.VCpuInfo.DefaultVCpus))
	}
	if t.MemoryInfo != nil {
		k.memoryGiB = float64(sdk.ToInt64(t.MemoryInfo.SizeInMiB)) / 1024
	}
	if t.ProcessorInfo != nil {
		switch {
		case slices.Contains(t.ProcessorInfo.SupportedArchitectures, types.ArchitectureTypeX8664):
			k.arch = "amd64"
		case slices.Contains(t.ProcessorInfo.SupportedArchitectures, types.ArchitectureTypeArm64):
			k.arch = "arm64"
		}
	}
	hvm := len(t.SupportedVirtualizationTypes) == 0 || slices.Contains(t.SupportedVirtualizationTypes, types.VirtualizationTypeHvm)
	ebs := len(t.SupportedRootDeviceTypes) == 0 || slices.Contains(t.SupportedRootDeviceTypes, types.RootDeviceTypeEbs)
	if k.name == "" || k.arch == "" || k.memoryGiB < leastMemoryGiB || !hvm || !ebs || !k.spot && !k.onDemand && !k.block {
		return k, false
	}
	return k, k.readDevices(t)
}

// readDevices reads the accelerators. Inferentia is in both NeuronInfo and
// InferenceAcceleratorInfo, and is counted once.
func (k *kind) readDevices(t types.InstanceTypeInfo) bool {
	switch {
	case t.GpuInfo != nil && len(t.GpuInfo.Gpus) == 1:
		g := t.GpuInfo.Gpus[0]
		size := int32(0)
		if g.MemoryInfo != nil {
			size = sdk.ToInt32(g.MemoryInfo.SizeInMiB)
		}
		k.accelerator = device(sdk.ToString(g.Name), sdk.ToInt32(g.Count), size)
		if sdk.ToInt32(g.Count) == 0 {
			k.accelerator = shareOf(g, size)
		}
	case t.NeuronInfo != nil && len(t.NeuronInfo.NeuronDevices) == 1:
		n := t.NeuronInfo.NeuronDevices[0]
		size := int32(0)
		if n.MemoryInfo != nil {
			size = sdk.ToInt32(n.MemoryInfo.SizeInMiB)
		}
		if sdk.ToString(n.Name) == "Trainium2" {
			size = 0 // EC2 reports the sum for several devices
		}
		k.accelerator = device(sdk.ToString(n.Name), sdk.ToInt32(n.Count), size)
	case t.GpuInfo == nil && t.NeuronInfo == nil && t.FpgaInfo == nil && t.MediaAcceleratorInfo == nil && t.InferenceAcceleratorInfo == nil:
		return true
	}
	return k.accelerator.Count > 0
}

// device translates EC2's name of a device. It keeps a name that no catalogue has.
func device(name string, count, memoryMiB int32) accelerators.Accelerator {
	if name == "" || count <= 0 {
		return accelerators.Accelerator{}
	}
	a, err := accelerators.ParseFrom(providerName, name)
	if err != nil {
		a = accelerators.Exact(name)
	}
	a.Count = float64(count)
	if memoryMiB > 0 {
		a.MemoryGiB = float64(memoryMiB) / 1024
	}
	return a
}

// shareOf returns the part of a GPU that a type has. EC2 counts it as no GPU. Its share is what EC2
// says or, where EC2 says nothing, the power of two that its memory is of a whole GPU's.
func shareOf(g types.GpuDeviceInfo, memoryMiB int32) accelerators.Accelerator {
	a := device(sdk.ToString(g.Name), 1, memoryMiB)
	m, known := accelerators.Lookup(a.Name)
	share := sdk.ToFloat64(g.GpuPartitionSize)
	if share == 0 && known && !a.Exact && a.MemoryGiB > 0 {
		share = math.Exp2(math.Round(math.Log2(a.MemoryGiB / m.Variants[0].MemoryGiB)))
	}
	if share <= 0 || share >= 1 || sdk.ToInt32(g.LogicalGpuCount) > 1 {
		return accelerators.Accelerator{}
	}
	a.Count = share
	return a
}

// software names the drivers that an image has for accelerators.
type software string

const (
	plain  software = "plain"
	nvidia software = "nvidia"
	neuron software = "neuron"
)

// softwareFor returns the software that an accelerator needs. unfit is the reason why no image of
// AWS's can drive it, or "".
func softwareFor(a accelerators.Accelerator) (s software, unfit string) {
	if a.IsZero() {
		return plain, ""
	}
	m, known := accelerators.Lookup(a.Name)
	switch {
	case !known || a.Exact:
		return nvidia, "has devices that no default image drives; set Config.AMI to one that does"
	case m.Vendor == "AWS":
		return neuron, ""
	case m.Vendor != "NVIDIA":
		return plain, "has devices that no default image drives; set Config.AMI to one that does"
	case a.Count > 0 && a.Count < 1:
		return nvidia, "has a part of a GPU, which needs NVIDIA's GRID driver; set Config.AMI to an image with it"
	case m.Name == "V100":
		return nvidia, "has GPUs that the default image's open driver cannot drive; set Config.AMI to an image with NVIDIA's proprietary driver"
	}
	return nvidia, ""
}

// fits reports whether an instance type matches a spec.
func (k kind) fits(spec driver.Query) bool {
	switch {
	case spec.Arch != "" && spec.Arch != k.arch, k.vcpus < spec.VCPUs, k.memoryGiB < spec.MemoryGiB:
		return false
	case spec.Accelerator.IsZero():
		return k.accelerator.IsZero()
	}
	return spec.Accelerator.Matches(k.accelerator)
}

// anyNumber returns what a spec asks for without the number of devices.
func anyNumber(spec driver.Query) accelerators.Accelerator {
	a := spec.Accelerator.OrMore()
	a.Count = 1
	return a
}

// acceleratedFamilies match all types with accelerators, and some others.
var acceleratedFamilies = []string{"g*", "p*", "inf*", "trn*", "dl*"}

// canBePlaced reports whether a type can be in a cluster placement group.
func canBePlaced(instanceType string) bool {
	family, _, _ := strings.Cut(instanceType, ".")
	return !strings.HasSuffix(family, "-flex") && !slices.Contains([]string{"t1", "t2", "t3", "t3a", "t4g"}, family)
}
