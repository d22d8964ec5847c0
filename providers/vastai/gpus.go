package vastai

import (
	"math"
	"strings"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// gpuNames are the API's names of GPUs. A search takes exact names.
var gpuNames = strings.Split("A10,A10g,A16,A30,A40,A100 PCIE,A100 SXM4,A100 SXM,A100X,A800 PCIE,B200,GH200 SXM,"+
	"H100 PCIE,H100 SXM,H100 NVL,H200,H200 NVL,L4,L40,L40S,"+
	"Tesla K80,Tesla M40,Tesla P4,Tesla P40,Tesla P100,Tesla T4,Tesla V100,"+
	"GTX 1060,GTX 1070,GTX 1070 Ti,GTX 1080,GTX 1080 Ti,GTX 1650,GTX 1650 S,GTX 1660,GTX 1660 S,GTX 1660 Ti,"+
	"RTX 2060,RTX 2060S,RTX 2070,RTX 2070S,RTX 2080,RTX 2080S,RTX 2080 Ti,RTX 3050,RTX 3060,RTX 3060 Ti,RTX 3070,RTX 3070 Ti,"+
	"RTX 3080,RTX 3080 Ti,RTX 3090,RTX 3090 Ti,RTX 4060,RTX 4060 Ti,RTX 4070,RTX 4070S,RTX 4070 Ti,RTX 4070S Ti,RTX 4080,RTX 4080S,"+
	"RTX 4090,RTX 4090D,RTX 5060,RTX 5060 Ti,RTX 5070,RTX 5070 Ti,RTX 5080,RTX 5090,Titan RTX,Titan V,Titan Xp,"+
	"RTX A2000,RTX A4000,RTX A4500,RTX A5000,RTX A6000,RTX 2000Ada,RTX 4000Ada,RTX 4500Ada,RTX 5000Ada,RTX 5880Ada,RTX 6000Ada,"+
	"Q RTX 4000,Q RTX 5000,Q RTX 6000,Q RTX 8000,RTX PRO 4000,RTX PRO 4500,RTX PRO 5000,RTX PRO 6000,RTX PRO 6000 S,RTX PRO 6000 WS,RTX PRO 6000 Max-Q,"+
	"InstinctMI50,InstinctMI100,InstinctMI210,InstinctMI250X,RX 7900 XTX,PRO W7900", ",")

// accelerator translates the API's name, a number of GPUs and the memory of one in MB. It keeps
// a name that no table has.
func accelerator(name string, count int, ram float64) accelerators.Accelerator {
	return cloud.Accelerator(providerName, name, count, math.Round(ram/1024*10)/10, accelerators.Accelerator{})
}

// namesOf returns the API's names of an accelerator, to search for. If it returns none, the
// names are unknown, and the search must not use them.
func namesOf(want accelerators.Accelerator) []string {
	if want.Exact {
		return []string{want.Name}
	}
	if want.Name == "" && want.Vendor == "" && want.Capability == 0 && want.MaxCapability == 0 {
		return nil // any name will do, and one that this table lacks too
	}
	want = accelerators.Accelerator{Name: want.Name, Vendor: want.Vendor, Capability: want.Capability, MaxCapability: want.MaxCapability,
		FormFactor: want.FormFactor} // no memory: one name may cover cards with 40 GB and with 80
	var names []string
	for _, name := range gpuNames {
		have := accelerator(name, 1, 0)
		if have.FormFactor == "" {
			have.FormFactor = want.FormFactor // the name does not determine it
		}
		if want.Matches(have) {
			names = append(names, name)
		}
	}
	return names
}
