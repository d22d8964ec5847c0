package colab

import (
	"fmt"
	"strings"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/nvidia"
	"github.com/gputrain/gputrain/providers/driver"
)

// probeScript looks for the accelerators of the notebook's runtime type. It prints a line for
// each GPU, or one for TPUs.
const probeScript = `gpus=$(` + nvidia.Query + ` 2>/dev/null)
case $gpus in
*,*) printf '%s\n' "$gpus" ;;
*)
	if ls /dev/accel* >/dev/null 2>&1 || env | grep '^TPU_' >/dev/null; then
		echo tpu
	fi
	;;
esac`

// Scripts returns the probe of the runtime.
func (d *colabDriver) Scripts(driver.Instance) driver.Scripts {
	return driver.Scripts{Probe: probeScript, Probed: d.probed}
}

// probed refuses a runtime with another accelerator than the query wants.
func (d *colabDriver) probed(query driver.Query, printed string) (accelerators.Accelerator, error) {
	want, kinds := query.Accelerator, parse(printed)
	has, suits := nvidia.Best(kinds, want)
	if !suits && !d.acceptAny {
		found := nvidia.Text(kinds)
		if found == "" {
			found = "no accelerator"
		}
		// Not ErrNoOffers: the pool would adopt the same runtime again.
		return has, &driver.Error{
			Provider: provider, Op: "probe", Kind: driver.ErrUnsupported,
			Err:  fmt.Errorf("the runtime has %s; the spec asks for %v", found, want),
			Hint: "choose another by Runtime > Change runtime type in the notebook, and run the cell again; or set AcceptAnyGPU",
		}
	}
	return has, nil
}

// parse reads the output of probeScript: the kinds of accelerators. A line without a GPU's name and memory, such as "No
// devices were found", is no GPU.
func parse(printed string) []accelerators.Accelerator {
	if strings.TrimSpace(printed) == "tpu" {
		return []accelerators.Accelerator{accelerators.Exact("TPU")} // of an unknown kind
	}
	well, _, _ := nvidia.Devices(printed)
	return nvidia.Kinds(well)
}

// Advise returns a hint for a runtime that cannot be reached.
func (d *colabDriver) Advise(_ driver.Instance, kind error) string {
	switch kind {
	case driver.ErrHostKey:
		return "the tunnel's address may lead to a stranger's machine by now: run the cell again and take the whole endpoint that it prints"
	case driver.ErrAuth:
		return "KeyFile must be the private half of the cell's key: see BootstrapCell"
	case driver.ErrUnavailable:
		return "check that the cell still runs, and take the last endpoint that it printed: a reopened tunnel has another address, and a runtime ends after hours, or when it is idle"
	}
	return ""
}
