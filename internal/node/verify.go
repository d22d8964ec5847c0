package node

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
	// ask returns what a command prints on the machine. The error is as that of
	// [ssh.Client.Exec].
	ask func(ctx context.Context, text string) (stdout, stderr string, err error)

	lacking []string // what the machine lacks
}

// queryOf returns what the node's machine must have.
func queryOf(n *Node) driver.Query { return n.settings.Wants.QueryOf(n.Instance().Offer) }

// verify compares the node with what the settings' query asks for.
func (n *Node) verify() error {
	v := verifier{
		query: queryOf(n), facts: n.onMachine().Facts(),
		ask: func(ctx context.Context, text string) (stdout, stderr string, err error) {
			return n.queries.answer(ctx, n.Client(), text)
		},
	}
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

func (v *verifier) lacks(format string, args ...any) {
	v.lacking = append(v.lacking, fmt.Sprintf(format, args...))
}

// amounts compares processors, memory and disk.
func (v *verifier) amounts() {
	const tolerance = 0.9 // firmware and kernel keep some
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
	listNvidia = "nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits"
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
		hung := limited.Err() != nil && ctx.Err() == nil
		switch {
		case !answered && !hung:
			return err
		case hasDriver:
			first, _, _ := strings.Cut(strings.TrimSpace(out+stderr), "\n")
			v.lacks("its driver is not well: %v %s", err, first)
		}
		return nil
	}
	lines := strings.FieldsFunc(out, func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) == 0 && !hasDriver {
		return nil // it has no lspci, or nothing that listPCI knows
	}
	if got := countDevices(lines, want); float64(got) < math.Max(want.Count, 1) { // more are no fault: a machine may be the user's own
		v.lacks("of %v, which the spec asks for, it has %d: %s", want, got, cmp.Or(strings.Join(lines, ", "), "it has no accelerator"))
		return nil
	}
	if hasDriver {
		return v.cuda(ctx)
	}
	return nil
}

// canCompare reports whether a machine's accelerators can be compared with those that a query asks for: not if it asks
// for a part of one, or by a name that only the provider knows.
func canCompare(want accelerators.Accelerator) bool {
	return !want.IsZero() && !want.Exact && (want.Count <= 0 || want.Count >= 1)
}

// countDevices returns how many of the devices are what is wanted, or may be: an unknown name
// is no reason to give a machine up.
func countDevices(lines []string, want accelerators.Accelerator) (n int) {
	want.Count, want.MaxCount, want.TotalMemoryGiB, want.MaxTotalMemoryGiB = 1, 0, 0, 0
	for _, line := range lines {
		name, memory, _ := strings.Cut(line, ",")
		mib, err := strconv.ParseFloat(strings.TrimSpace(memory), 64)
		if err != nil {
			mib = 0 // "[N/A]", if processor and accelerator share their memory
		}
		got, err := accelerators.Reported(name, mib)
		one := want
		if got.FormFactor == "" {
			one.FormFactor = "" // not reported
		}
		if got.Count = 1; err != nil || one.Matches(got) {
			n++
		}
	}
	return n
}
