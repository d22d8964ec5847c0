package accelerators

import (
	"fmt"
	"regexp"
	"strings"
)

// Reported parses a machine's report of one of its devices: the name, and the
// total memory in MiB, as nvidia-smi prints them. A memory of 0 is unknown. In
// a line of lspci the name is the text in brackets. A partition has its profile
// after the device's name: "NVIDIA H100 80GB HBM3 MIG 1g.10gb".
//
// To compare the result with a spec, set Count to the number of devices and
// call [Accelerator.Matches].
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

// driver has the rule for names that only NVIDIA's driver uses: its H200
// without a form is the one on SXM.
var driver = []rule{say(`^NVIDIA H200( MIG .+)?$`, "H200-SXM$1")}
