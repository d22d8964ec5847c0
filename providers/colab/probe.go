package colab

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// probeScript looks for the accelerators of the notebook's runtime type. It prints a line for
// each GPU, or one for TPUs.
const probeScript = `gpus=$(nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits 2>/dev/null) || gpus=
if [ -n "$gpus" ]; then
	printf '%s\n' "$gpus"
elif ls /dev/accel* >/dev/null 2>&1 || env | grep '^TPU_' >/dev/null; then
	echo tpu
fi`

// Scripts returns the probe of the runtime.
func (d *colabDriver) Scripts(driver.Instance) driver.Scripts {
	return driver.Scripts{Probe: probeScript, Probed: d.probed}
}

// probed refuses a runtime with another accelerator than the query wants.
func (d *colabDriver) probed(query driver.Query, printed string) (accelerators.Accelerator, error) {
	has := parse(printed)
	if want := query.Accelerator; !want.IsZero() && !d.acceptAny && !want.OrMore().Matches(has) {
		// Not ErrNoOffers: the pool would adopt the same runtime again.
		return has, &driver.Error{
			Provider: provider, Op: "probe", Kind: driver.ErrUnsupported,
			Err:  fmt.Errorf("the runtime has %s; the spec asks for %v", named(has), want),
			Hint: "choose another by Runtime > Change runtime type in the notebook, and run the cell again; or set AcceptAnyGPU",
		}
	}
	return has, nil
}

func named(a accelerators.Accelerator) string {
	if a.IsZero() {
		return "no accelerator"
	}
	return a.String()
}

// parse reads the output of probeScript. A line without a GPU's name and memory, such as "No
// devices were found", is no GPU.
func parse(printed string) accelerators.Accelerator {
	var found accelerators.Accelerator
	for line := range strings.Lines(printed) {
		name, memory, ok := strings.Cut(strings.TrimSpace(line), ", ")
		switch {
		case name == "tpu" && !ok:
			return accelerators.Exact("TPU") // of an unknown kind
		case !ok:
			continue
		case found.IsZero():
			mib, _ := strconv.ParseFloat(memory, 64) // "[N/A]" means unknown
			var err error
			if found, err = accelerators.Reported(name, mib); err != nil {
				found = accelerators.Exact(name, accelerators.Memory(mib/1024))
			}
			found.Count = 0
		}
		found.Count++
	}
	return found
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
