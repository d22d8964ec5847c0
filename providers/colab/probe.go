package colab

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
)

// Probe looks for what the notebook's runtime type has brought. It prints a line for
// each GPU, or one for TPUs.
func (d *driver) Probe(gputrain.Instance) string {
	return `gpus=$(nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits 2>/dev/null) || gpus=
if [ -n "$gpus" ]; then
	printf '%s\n' "$gpus"
elif ls /dev/accel* >/dev/null 2>&1 || env | grep '^TPU_' >/dev/null; then
	echo tpu
fi`
}

// Probed refuses a runtime that has another accelerator than the spec wants.
func (d *driver) Probed(_ gputrain.Instance, spec gputrain.Spec, printed string) (accelerators.Accelerator, error) {
	has := parse(printed)
	if want := spec.Accelerator; !want.IsZero() && !d.acceptAny && !want.Matches(has) {
		// Not ErrNoOffers: the pool would adopt the same runtime again.
		return has, &gputrain.Error{
			Provider: provider, Op: "probe", Kind: gputrain.ErrUnsupported,
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

// parse reads what Probe's text prints. What is no GPU's name and memory, such as
// "No devices were found", is none.
func parse(printed string) accelerators.Accelerator {
	var found accelerators.Accelerator
	for line := range strings.Lines(printed) {
		name, memory, ok := strings.Cut(strings.TrimSpace(line), ", ")
		switch {
		case name == "tpu" && !ok:
			return accelerators.Exact("TPU") // of a kind that it does not tell
		case !ok:
			continue
		case found.IsZero():
			mib, _ := strconv.ParseFloat(memory, 64) // "[N/A]" is not known
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

// Advise says what to do where the runtime cannot be reached.
func (d *driver) Advise(kind error) string {
	switch kind {
	case gputrain.ErrHostKey:
		return "the tunnel's address may be a stranger's by now: run the cell again and take the whole endpoint that it prints"
	case gputrain.ErrAuth:
		return "KeyFile must be the private half of the key that the cell was given: see BootstrapCell"
	case gputrain.ErrUnavailable:
		return "look whether the cell still runs, and take the endpoint that it has printed last: a tunnel that is opened anew has another address, and a runtime ends after hours, or when it is idle"
	}
	return ""
}
