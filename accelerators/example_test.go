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

func ExampleAccelerator_Matches() {
	want := accelerators.A100(accelerators.Count(4), accelerators.Memory(80))
	offer, _ := accelerators.Parse("8x NVIDIA A100-SXM4-80GB")
	fmt.Println(want.Matches(offer), want.Matches(accelerators.A100(accelerators.Count(4), accelerators.Memory(40))))
	// Output: true false
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

// What has 80 GB or more, and CUDA's compute capability 8.0.
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
