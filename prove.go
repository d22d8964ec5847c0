package gputrain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/ssh"
)

// proveTimeout is how long a node may take to tell of its accelerators: a driver that
// is broken may hang.
const proveTimeout = time.Minute

// prove compares the node with what the spec asks for. What it cannot tell is not held
// against it.
func (n *poolNode) prove() error {
	const tolerance = 0.9 // firmware and kernel keep some
	facts, spec := n.facts, n.p.spec
	memory, disk := float64(facts.MemoryBytes)/(1<<30), float64(facts.DiskFreeBytes)/(1<<30)
	var f faults
	if spec.Arch != "" && facts.Arch != spec.Arch {
		f.add("it is %s; the spec asks for %s", facts.Arch, spec.Arch)
	}
	if short(float64(facts.CPUs), spec.VCPUs) {
		f.add("it has %d vCPUs; the spec asks for %g", facts.CPUs, spec.VCPUs)
	}
	if short(memory, tolerance*spec.MemoryGiB) {
		f.add("it has %.1f GiB of memory; the spec asks for %g", memory, spec.MemoryGiB)
	}
	if short(disk, tolerance*spec.DiskGiB) {
		f.add("%s has %.1f GiB free; the spec asks for %g", facts.WorkDir, disk, spec.DiskGiB)
	}
	if err := n.proveAccelerator(&f); err != nil {
		return err
	}
	if len(f) == 0 {
		return nil
	}
	return &Error{Provider: n.provider(), Op: "check " + n.whereabouts(), Kind: ErrNoOffers, Err: errors.New(joinSemicolons(f))}
}

// What tells a node's accelerators: a line for each, its name, and its memory in MiB
// where that is known.
const (
	askNvidia = "nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits"
	askPCI    = `! command -v lspci >/dev/null || lspci | grep -E '(3D controller|VGA compatible controller|Display controller).*(NVIDIA|AMD|ATI)' || :`
)

// proveAccelerator compares the node's accelerators with the spec's: by the driver, or
// else by what is plugged in. Of a share of one, or a name that only its provider
// knows, nothing is known to compare, and a [Prober] has compared. The error is one of
// asking.
func (n *poolNode) proveAccelerator(f *faults) error {
	want := n.p.spec.Accelerator
	if _, probed := n.member().driver.(Prober); probed {
		return nil
	}
	if !n.provesAccelerator() {
		return nil
	}
	ask, driver := askPCI, n.facts.Tools["nvidia-smi"]
	if driver {
		ask = askNvidia
	}
	ctx, cancel := context.WithTimeoutCause(n.ctx, proveTimeout, fmt.Errorf("no answer to %s within %v", ask, proveTimeout))
	defer cancel()
	out, stderr, err := n.questions.answer(ctx, n.client, ask)
	if err != nil {
		_, answered := errors.AsType[*ssh.ExitError](err)
		hung := ctx.Err() != nil && n.ctx.Err() == nil
		switch {
		case !answered && !hung:
			return err
		case driver:
			f.add("its driver is not well: %v %s", err, firstLine(out+stderr))
		}
		return nil
	}
	lines := strings.FieldsFunc(out, func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) == 0 && !driver {
		return nil // it has no lspci, or nothing that this knows
	}
	if got := countDevices(lines, want); float64(got) < math.Max(want.Count, 1) {
		f.add("of %v, which the spec asks for, it has %d: %s", want, got, cmp.Or(strings.Join(lines, ", "), "it has no accelerator"))
		return nil
	}
	if driver {
		return n.proveCUDA(f)
	}
	return nil
}

// provesAccelerator reports whether the spec asks for accelerators that can be compared.
func (n *poolNode) provesAccelerator() bool {
	want := n.p.spec.Accelerator
	return !want.IsZero() && !want.Exact && (want.Count <= 0 || want.Count >= 1)
}

// countDevices returns how many of the devices are what is wanted, or may be: a name
// that nobody knows is no reason to give a machine up.
func countDevices(lines []string, want accelerators.Accelerator) (n int) {
	want.Count = 1
	for _, line := range lines {
		name, memory, _ := strings.Cut(line, ",")
		mib, err := strconv.ParseFloat(strings.TrimSpace(memory), 64)
		if err != nil {
			mib = 0 // "[N/A]", where processor and accelerator share theirs
		}
		got, err := accelerators.Reported(name, mib)
		one := want
		if got.FormFactor == "" {
			one.FormFactor = "" // not told
		}
		if got.Count = 1; err != nil || one.Matches(got) {
			n++
		}
	}
	return n
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
