package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/nvidia"
	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/providers/driver"
)

// A node that has not answered a question about its accelerators within verifyTimeout has a
// broken driver.
const verifyTimeout = time.Minute

// A verifier compares a machine with what a query asks for. What the machine does not report is
// not held against it.
type verifier struct {
	query driver.Query
	facts supervisor.Facts
	// promised says that the machine was rented as one that has the accelerators.
	promised bool
	// ask returns what a command prints on the machine. The error is as that of
	// [ssh.Client.Exec].
	ask func(ctx context.Context, text string) (stdout, stderr string, err error)

	lacking []string // what the machine lacks
	// unwell are what its driver says of devices that cannot be used, beside others that can, and sick the rows of those.
	unwell []string
	sick   []int
}

// queryOf returns what the node's machine must have.
func queryOf(n *Node) driver.Query { return n.settings.Wants.QueryOf(n.Instance().Offer) }

// verify compares the node with what the settings' query asks for.
func (n *Node) verify() error {
	v := verifier{
		query: queryOf(n), facts: n.onMachine().Facts(),
		promised: !n.Instance().Offer.Accelerator.IsZero(),
		ask: func(ctx context.Context, text string) (stdout, stderr string, err error) {
			return n.queries.answer(ctx, n.Client(), text)
		},
	}
	defer leaveOut(n, &v)
	v.amounts()
	if n.scripts().Probe == "" { // or the driver has compared the accelerators
		if err := v.accelerators(n.ctx); err != nil {
			return err
		}
	}
	if n.sharing.wanted() {
		lack, err := n.sharing.check(n.ctx)
		if err != nil {
			return err
		}
		if lack != "" {
			v.lacks("%s", lack)
		}
	}
	if len(v.lacking) == 0 {
		return nil
	}
	return &driver.Error{Provider: n.Provider(), Op: "check " + n.title(), Kind: driver.ErrNoOffers, Err: errors.New(strings.Join(v.lacking, "; "))}
}

// leaveOut has a node's tasks use the devices that are well, and tells of the others.
func leaveOut(n *Node, v *verifier) {
	if len(v.lacking) > 0 {
		return
	}
	for _, line := range v.unwell {
		n.owner.Troubled("accelerator", fmt.Errorf("nvidia-smi says: %s", printable.Message(strings.TrimSpace(line))))
	}
	if well := wellGPUs(v.facts.NVIDIA, v.sick); len(v.sick) > 0 && len(v.facts.Visible) == 0 && len(well) > 0 {
		n.useOnly(well)
		findDevices(n, v.facts)
	}
}

func (v *verifier) lacks(format string, args ...any) {
	v.lacking = append(v.lacking, fmt.Sprintf(format, args...))
}

// Of an amount of memory or disk, firmware and kernel keep some: tolerance of it is enough.
const tolerance = 0.9

// amounts compares processors, memory and disk.
func (v *verifier) amounts() {
	facts, query := v.facts, v.query
	memory, disk := float64(facts.MemoryBytes)/(1<<30), float64(facts.DiskFreeBytes)/(1<<30)
	if query.Arch != "" && facts.Arch != query.Arch {
		v.lacks("it is %s; the spec asks for %s", facts.Arch, query.Arch)
	}
	if short(float64(facts.CPUs), query.VCPUs) {
		v.lacks("it has %d vCPUs; the spec asks for %g", facts.CPUs, query.VCPUs)
	}
	if short(memory, tolerance*query.MemoryGiB) {
		v.lacks("it has %.1f GiB of memory; the spec asks for %g", memory, query.MemoryGiB)
	}
	if short(disk, tolerance*query.DiskGiB) {
		v.lacks("%s has %.1f GiB free; the spec asks for %g", facts.WorkDir, disk, query.DiskGiB)
	}
}

// short reports whether a known amount is less than what is asked for.
func short(has, want float64) bool { return has > 0 && has < want }

// Commands that print a line for each accelerator: its name, and its memory in MiB if that is
// known.
const (
	listNvidia = nvidia.Query
	listPCI    = `! command -v lspci >/dev/null || lspci | grep -E '(3D controller|VGA compatible controller|Display controller).*(NVIDIA|AMD|ATI)' || :`
)

// accelerators compares the accelerators: those that the vendor's driver lists, or else those
// that are plugged in. The error is one of asking.
func (v *verifier) accelerators(ctx context.Context) error {
	want := v.query.Accelerator
	if !canCompare(want) {
		return nil
	}
	list, hasDriver := listPCI, v.facts.Tools["nvidia-smi"]
	if hasDriver {
		list = listNvidia
	}
	limited, cancel := context.WithTimeoutCause(ctx, verifyTimeout, fmt.Errorf("no answer to %s within %v", list, verifyTimeout))
	defer cancel()
	out, stderr, err := v.ask(limited, list)
	if err != nil {
		_, answered := errors.AsType[*ssh.ExitError](err)
		if hung := limited.Err() != nil && ctx.Err() == nil; !answered && !hung {
			return err
		}
	}
	if !hasDriver {
		v.plugged(err, out)
		return nil
	}
	well, odd, rows := nvidia.Devices(out)
	if len(well) == 0 && err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(out+stderr), "\n")
		v.lacks("its driver is not well: %v %s", err, printable.Message(first))
		return nil
	}
	odd = append(odd, slices.DeleteFunc(strings.Split(stderr, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })...)
	if v.compare(well, odd); len(v.lacking) > 0 {
		return nil
	}
	if len(odd) > 0 {
		v.unwell = odd
		v.sick = slices.DeleteFunc(ordinals(rows), func(row int) bool {
			return slices.ContainsFunc(well, func(d nvidia.Device) bool { return d.Row == row })
		})
	}
	return v.cuda(ctx)
}

// ordinals returns the numbers from 0 up.
func ordinals(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// compare compares the devices that the driver lists as well; odd are its other words. More devices than wanted are no fault:
// a machine may be the user's own.
func (v *verifier) compare(well []nvidia.Device, odd []string) {
	want := v.query.Accelerator
	if strings.EqualFold(want.Vendor, "NVIDIA") {
		want.Vendor = "" // also one that the catalogue lacks: its driver tells
	}
	suit, mib := countDevices(well, want)
	if float64(suit) < math.Max(want.Count, 1) {
		var found []string
		for _, d := range well {
			found = append(found, d.String())
		}
		for _, line := range odd {
			found = append(found, printable.Message(line))
		}
		v.lacks("of %v, which the spec asks for, it has %d: %s", v.query.Accelerator, suit, cmp.Or(strings.Join(found, ", "), "it has no accelerator"))
	} else if total := mib / 1024; total > 0 && total < tolerance*want.TotalMemoryGiB {
		v.lacks("its %d accelerators have %.1f GiB of memory; the spec asks for %v", suit, total, v.query.Accelerator)
	}
}

// plugged compares what lspci shows, on a machine without a driver. One that has no lspci, or shows nothing, reports nothing.
func (v *verifier) plugged(err error, out string) {
	lines := strings.FieldsFunc(out, func(r rune) bool { return r == '\n' || r == '\r' })
	if err != nil || len(lines) == 0 {
		return
	}
	var named []nvidia.Device
	numbered := 0
	for _, line := range lines {
		if nameless.MatchString(line) {
			numbered++
		} else {
			named = append(named, nvidia.Device{Name: line})
		}
	}
	suit, _ := countDevices(named, v.query.Accelerator)
	if v.promised {
		suit += numbered
	}
	if float64(suit) < math.Max(v.query.Accelerator.Count, 1) {
		v.lacks("of %v, which the spec asks for, it has %d: %s", v.query.Accelerator, suit, printable.Message(strings.Join(lines, ", ")))
	}
}

// nameless finds a device that lspci has no name for: "3D controller: NVIDIA Corporation Device 2330 (rev a1)". It may be what
// its provider has promised.
var nameless = regexp.MustCompile(`\bDevice [0-9a-f]{4}\b`)

// canCompare reports whether a machine's accelerators can be compared with those that a query asks for: not if it asks
// for a part of one, or by a name that only the provider knows.
func canCompare(want accelerators.Accelerator) bool {
	return !want.IsZero() && !want.Exact && (want.Count <= 0 || want.Count >= 1)
}

// countDevices returns how many of the devices are what is wanted, and their memory in MiB. One whose name nobody knows is, only
// if any will do that has the rest.
func countDevices(devices []nvidia.Device, want accelerators.Accelerator) (n int, mib float64) {
	want.Count, want.MaxCount, want.TotalMemoryGiB, want.MaxTotalMemoryGiB = 1, 0, 0, 0
	for _, d := range devices {
		got, one := d.Accelerator(), want
		if got.FormFactor == "" && !got.Exact {
			one.FormFactor = "" // not reported
		}
		if got.Count = 1; one.Matches(got) {
			n++
			mib += d.MemoryMiB
		}
	}
	return n, mib
}
