package accelerators_test

import (
	"fmt"

	"github.com/gputrain/gputrain/accelerators"
)

func ExampleParse() {
	for _, s := range []string{"A100-80GB:4", "8x H100", "NVIDIA GeForce RTX 4090", "cpu"} {
		a, err := accelerators.Parse(s)
		fmt.Println(a, err)
	}
	// Output:
	// A100-80GB:4 <nil>
	// H100:8 <nil>
	// RTX4090 <nil>
	// cpu <nil>
}

func ExampleParse_unknown() {
	_, err := accelerators.Parse("A101:4")
	fmt.Println(err)
	// Output:
	// accelerator "A101:4": no accelerator "A101" is known; did you mean A100, A10G, A10? (a provider's own name goes into accelerators.Exact)
}

func ExampleParse_share() {
	a, _ := accelerators.Parse("NVIDIA A16-2Q") // a virtual GPU, as the driver calls it
	fmt.Println(a.Name, a.Count, a.MemoryGiB)
	// Output: A16 0.125 2
}

func ExampleParseFrom() {
	for _, s := range [][2]string{{"lambda", "gpu_8x_h100_sxm5"}, {"vultr", "vcg-a16-2c-8g-2vram"}, {"jarvislabs", "A100"}} {
		a, err := accelerators.ParseFrom(s[0], s[1])
		fmt.Println(a, err)
	}
	_, err := accelerators.ParseFrom("aws", "p4d.24xlarge")
	fmt.Println(err)
	// Output:
	// H100-SXM:8 <nil>
	// A16-2GB:0.125 <nil>
	// A100-40GB <nil>
	// accelerator "p4d.24xlarge" of aws: an instance type does not name its devices; DescribeInstanceTypes does, in GpuInfo and NeuronInfo
}

// Check whether a node has the requested devices.
func ExampleReported() {
	want := accelerators.H100(accelerators.Form(accelerators.SXM), accelerators.Memory(80))
	has, _ := accelerators.Reported("NVIDIA H100 80GB HBM3", 81559)
	fmt.Println(want.Matches(has))
	has, _ = accelerators.Reported("NVIDIA H100 PCIe", 81559)
	fmt.Println(want.Matches(has))
	// Output:
	// true
	// false
}

func ExampleAccelerator_String() {
	fmt.Println(accelerators.L4(accelerators.Count(0.5)))
	// Output: L4:0.5
}

func ExampleAccelerator_IsZero() {
	fmt.Println(accelerators.T4().IsZero(), accelerators.Accelerator{}.IsZero())
	// Output: false true
}

func ExampleOption() {
	eight := []accelerators.Option{accelerators.Count(8), accelerators.Form(accelerators.OAM)}
	fmt.Println(accelerators.MI300X(eight...), accelerators.Gaudi3(eight...))
	// Output: MI300X-OAM:8 Gaudi3-OAM:8
}

func ExampleVariant() {
	m, _ := accelerators.Lookup("h100")
	for _, v := range m.Variants {
		fmt.Println(v.FormFactor, v.MemoryGiB)
	}
	// Output:
	// PCIe 80
	// SXM 80
	// NVL 94
}

func ExampleAccelerator_Matches() {
	want := accelerators.A100(accelerators.Count(4), accelerators.Memory(80))
	four, _ := accelerators.Parse("4x NVIDIA A100-SXM4-80GB")
	eight, _ := accelerators.Parse("8x NVIDIA A100-SXM4-80GB")
	fmt.Println(want.Matches(four), want.Matches(eight), want.OrMore().Matches(eight))
	// Output: true false true
}

// Two to eight devices of any name will do, if they have enough memory and run code for
// compute capability 8.9.
func ExampleAny() {
	want := accelerators.Any(accelerators.CountBetween(2, 8), accelerators.Memory(48), accelerators.Capability(8.9))
	fmt.Println(want)
	for _, s := range []string{"L40S:2", "L40S", "H100:8", "A100-80GB:2"} {
		offer, _ := accelerators.Parse(s)
		fmt.Println(s, want.Matches(offer))
	}
	// Output:
	// any-48GB-cc8.9:2-8
	// L40S:2 true
	// L40S false
	// H100:8 true
	// A100-80GB:2 false
}

func ExampleExact() {
	a := accelerators.Exact("Tesla V100-FHHL-16GB", accelerators.Count(2))
	fmt.Println(a)
	// Output: "Tesla V100-FHHL-16GB":2
}

func ExampleLookup() {
	m, _ := accelerators.Lookup("rtx a6000")
	fmt.Println(m.Name, m.Vendor, m.ComputeCapability)
	// Output: A6000 NVIDIA 8.6
}

func ExampleCount() {
	fmt.Println(accelerators.H100(accelerators.Count(8), accelerators.Form(accelerators.SXM)))
	// Output: H100-SXM:8
}

func ExampleMemory() {
	fmt.Println(accelerators.A100(accelerators.Memory(80)))
	// Output: A100-80GB
}

func ExampleForm() {
	want := accelerators.H100(accelerators.Form(accelerators.SXM))
	pcie, _ := accelerators.Parse("H100-PCIe")
	fmt.Println(want.Matches(pcie))
	// Output: false
}

func ExampleAccelerator() {
	var none accelerators.Accelerator
	fmt.Println(none, none.IsZero())
	// Output: cpu true
}

func ExampleAccelerator_Validate() {
	fmt.Println(accelerators.T4(accelerators.Count(-1)).Validate())
	// Output: count -1 is not a number of devices
}

func ExampleModel() {
	m, _ := accelerators.Lookup("Trn2")
	fmt.Println(m.Name, m.Vendor, m.Aliases)
	// Output: Trainium2 AWS [Trn2]
}

// List models with at least 80 GB and CUDA's compute capability 8.0.
func ExampleModels() {
	for m := range accelerators.Models() {
		for _, v := range m.Variants {
			if m.Vendor == "NVIDIA" && m.ComputeCapability == "8.0" && v.MemoryGiB >= 80 {
				fmt.Println(m.Name, v.FormFactor, v.MemoryGiB)
			}
		}
	}
	// Output:
	// A100 PCIe 80
	// A100 SXM 80
	// A100X PCIe 80
	// A800 PCIe 80
	// A800 SXM 80
}

func ExampleAtLeast() {
	want := accelerators.A100(accelerators.AtLeast(4))
	fmt.Println(want, want.Matches(accelerators.A100(accelerators.Count(8))))
	// Output: A100:4+ true
}

func ExampleCountBetween() {
	want := accelerators.L40S(accelerators.CountBetween(2, 4))
	fmt.Println(want, want.Matches(accelerators.L40S()), want.Matches(accelerators.L40S(accelerators.Count(3))))
	// Output: L40S:2-4 false true
}

func ExampleMemoryBetween() {
	want := accelerators.Any(accelerators.MemoryBetween(24, 48))
	fmt.Println(want, want.Matches(accelerators.T4()), want.Matches(accelerators.L4()), want.Matches(accelerators.H100()))
	// Output: any-24..48GB false true false
}

func ExampleTotalMemory() {
	want := accelerators.Any(accelerators.AtLeast(1), accelerators.TotalMemory(160))
	fmt.Println(want, want.Matches(accelerators.H100()), want.Matches(accelerators.H100(accelerators.Count(2))), want.Matches(accelerators.B300()))
	// Output: any-160GBtotal:1+ false true true
}

func ExampleTotalMemoryBetween() {
	fmt.Println(accelerators.Any(accelerators.AtLeast(1), accelerators.TotalMemoryBetween(80, 200)))
	// Output: any-80..200GBtotal:1+
}

func ExampleVendor() {
	want := accelerators.Any(accelerators.Vendor("AMD"))
	fmt.Println(want, want.Matches(accelerators.MI300X()), want.Matches(accelerators.H100()))
	// Output: any-AMD true false
}

func ExampleCapability() {
	want := accelerators.Any(accelerators.Capability(8.9))
	fmt.Println(want, want.Matches(accelerators.A100()), want.Matches(accelerators.L4()), want.Matches(accelerators.MI300X()))
	// Output: any-cc8.9 false true false
}

func ExampleCapabilityBetween() {
	want := accelerators.Any(accelerators.CapabilityBetween(8, 8.9))
	fmt.Println(want, want.Matches(accelerators.A100()), want.Matches(accelerators.H100()))
	// Output: any-cc8.0..8.9 true false
}

// The host has more devices than the spec asks for, which does not matter.
func ExampleAccelerator_OrMore() {
	want, host := accelerators.H100(accelerators.Count(2)), accelerators.H100(accelerators.Count(8))
	fmt.Println(want.Matches(host), want.OrMore().Matches(host))
	// Output: false true
}

// A cloud whose machines have up to eight devices is asked for these numbers.
func ExampleAccelerator_Counts() {
	fmt.Println(accelerators.A100().Counts(8), accelerators.A100(accelerators.CountBetween(2, 4)).Counts(8), accelerators.A100(accelerators.AtLeast(6)).Counts(8))
	// Output: [1] [2 3 4] [6 7 8]
}
