package accelerators

import (
	"fmt"
	"regexp"
	"strings"
)

// Reported reads what a machine says of one of its devices: the name and the
// total memory that nvidia-smi gives, in MiB, or 0 where it gives none. A name
// in lspci's words is read by what stands in brackets. A partition is told with
// its profile behind the device's name: "NVIDIA H100 80GB HBM3 MIG 1g.10gb".
//
// Whether a node is what was asked for is then a matter of [Accelerator.Matches],
// with the number of devices in Count.
func Reported(name string, memoryMiB float64) (Accelerator, error) {
	text := strings.TrimSpace(name)
	if m := bracketed.FindStringSubmatch(text); m != nil {
		text = m[1]
	}
	for _, r := range driver {
		text = r.fits.ReplaceAllString(text, r.means)
	}
	a, err := parse(text)
	if err != nil {
		return Accelerator{}, fmt.Errorf("accelerator %q: %w", name, err)
	}
	if memoryMiB > 0 {
		a.MemoryGiB = memoryMiB / 1024
	}
	return a, nil
}

// bracketed finds the name in a line of lspci's:
// "3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)".
var bracketed = regexp.MustCompile(`\[([^\[\]]+)\](?:\s*\(rev [0-9a-f]+\))?$`)

// driver is what NVIDIA's driver means beyond what is meant anywhere: the H200
// whose form it does not name is the one on SXM.
var driver = []rule{say(`^NVIDIA H200( MIG .+)?$`, "H200-SXM$1")}
