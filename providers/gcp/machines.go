package gcp

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A machine is a machine type. GPUs may be added to those of the N1 series; others have GPUs of
// their own.
type machine struct {
	name   string // machineTypes/NAME
	arch   string // by Go's name
	shared bool   // its vCPUs are shared, and priced so
	vcpus  int
	memory float64 // GiB
	ssd    float64 // GiB of local disks that come with it
	gpu    string  // acceleratorTypes/NAME; empty if there is none
	gpus   int
	added  bool
	unfit  string // why it cannot be rented, or ""
}

// kind returns the machine as one word: "g2-standard-4", "n1-standard-8+nvidia-tesla-t4:1".
func (m machine) kind() string {
	if m.added {
		return fmt.Sprintf("%s+%s:%d", m.name, m.gpu, m.gpus)
	}
	return m.name
}

func offerID(zone, kind string, spot bool) string {
	if spot {
		return zone + "/" + kind + "/spot"
	}
	return zone + "/" + kind
}

var offerForm = regexp.MustCompile(`^([a-z]+-[a-z]+[0-9]+-[a-z][a-z0-9]*)/([a-z][-a-z0-9]*)(?:\+([a-z][-a-z0-9]*):([0-9]{1,2}))?(/spot)?$`)

// A place is a zone, a machine in it and a market. It is the content of an offer's ID.
type place struct {
	zone, name, gpu string // gpu only if it is added
	gpus            int
	spot            bool
}

func parseOffer(id string) (place, error) {
	f := offerForm.FindStringSubmatch(id)
	if f == nil {
		return place{}, fmt.Errorf("%w: offer %q is not this provider's", driver.ErrInvalid, id)
	}
	gpus, _ := strconv.Atoi(f[4]) // digits, or empty
	return place{zone: f[1], name: f[2], gpu: f[3], gpus: gpus, spot: f[5] != ""}, nil
}

// family returns the beginning of a machine type's name: "a2".
func family(name string) string {
	name, _, _ = strings.Cut(name, "-")
	return name
}

// general are the families of plain machines, which pools without GPUs get.
var general = []string{"e2", "n1", "n2", "n2d", "n4", "n4a", "n4d", "c2", "c2d", "c3", "c3d", "c4", "c4a", "c4d", "t2a", "t2d"}

// isHyperdisk reports whether machines of a family take only hyperdisks as persistent disks.
func isHyperdisk(family string) bool {
	return slices.ContainsFunc([]string{"c4", "n4", "h3", "m4", "a4", "g4"}, func(prefix string) bool { return strings.HasPrefix(family, prefix) })
}

// hasGVNIC reports whether machines of a family need Google's own network card.
func hasGVNIC(family string) bool { return family[0] == 'a' || family[0] == 'g' }

// fabricOf returns the name of the fast network between machines of a type, for which more network cards and programs would be
// needed, or "". Source: Google's pages on networks for GPU machines.
func fabricOf(name string) string {
	switch fam := family(name); {
	case name == "a3-highgpu-8g":
		return "GPUDirect-TCPX"
	case strings.HasPrefix(name, "a3-megagpu"):
		return "GPUDirect-TCPXO"
	case strings.HasPrefix(name, "a3-ultragpu"), strings.HasPrefix(fam, "a4"):
		return "RDMA (RoCE)"
	}
	return ""
}

var spotOnly = regexp.MustCompile(`^(?:a3-highgpu-[124]g|a3-ultragpu-.+|a4x?-.+)$`)

// unsold returns why a machine type is not sold in a market, or "". Some are on demand only by
// reservation, and no reservation is of spot machines.
func (c Config) unsold(name string, spot bool) string {
	switch {
	case spot && c.Reservation != "":
		return "is spot; Config.Reservation is for machines on demand"
	case !spot && c.Reservation == "" && spotOnly.MatchString(name):
		return "is sold on demand by reservation only; set Config.Reservation, or ask for spot"
	}
	return ""
}

// limits bound the vCPUs and the memory of an N1 machine by its GPUs.
var limits = map[string]map[int]struct {
	vcpus  int
	memory float64
}{
	"nvidia-tesla-t4":   {1: {48, 312}, 2: {48, 312}, 4: {96, 624}},
	"nvidia-tesla-v100": {1: {12, 78}, 2: {24, 156}, 4: {48, 312}, 8: {96, 624}},
	"nvidia-tesla-p100": {1: {16, 104}, 2: {32, 208}, 4: {96, 624}},
	"nvidia-tesla-p4":   {1: {24, 156}, 2: {48, 312}, 4: {96, 624}},
}

// usual has the vCPUs that an N1 machine gets for a number of GPUs.
var usual = map[int]int{1: 8, 2: 16, 4: 32, 8: 96}

// toMachine reads a machine type. It returns false if the type cannot be rented as it is.
func toMachine(t *computepb.MachineType) (machine, bool) {
	m := machine{name: t.GetName(), shared: t.GetIsSharedCpu(), vcpus: int(t.GetGuestCpus()), memory: float64(t.GetMemoryMb()) / 1024}
	switch t.GetArchitecture() {
	case "ARM64":
		m.arch = "arm64"
	case "X86_64", "":
		m.arch = "amd64"
	default:
		return m, false
	}
	if has := t.GetAccelerators(); len(has) > 0 {
		m.gpu, m.gpus = has[0].GetGuestAcceleratorType(), int(has[0].GetGuestAcceleratorCount())
	}
	if n := t.GetBundledLocalSsds().GetPartitionCount(); n > 0 {
		m.ssd = 375 * float64(n)
	}
	if state := t.GetDeprecated().GetState(); state != "" && state != "ACTIVE" {
		m.unfit = "is " + strings.ToLower(state) + " at Google"
	}
	return m, nameForm.MatchString(m.name) && m.vcpus > 0 && !strings.HasSuffix(m.name, "-metal")
}

// accelerator returns the machine's GPUs by the names of package accelerators. It is zero if
// there are none. known is false for anything that is not such a GPU: licences for graphics,
// TPUs.
func (m machine) accelerator(asked accelerators.Accelerator) (a accelerators.Accelerator, known bool) {
	if m.gpu != "" && (!strings.HasPrefix(m.gpu, "nvidia-") || strings.HasSuffix(m.gpu, "-vws")) {
		return a, false
	}
	return cloud.Accelerator(providerName, m.gpu, m.gpus, 0, asked), true
}

// choose returns the machines of a zone for a spec, the smallest first. Those that have the wanted
// GPU and cannot be rented are among them.
func (c Config) choose(types []*computepb.MachineType, offered []*computepb.AcceleratorType, spec driver.Query) []machine {
	var found, n1 []machine
	for _, t := range types {
		m, ok := toMachine(t)
		if !ok {
			continue
		}
		if family(m.name) == "n1" && m.gpu == "" && !m.shared && m.unfit == "" {
			n1 = append(n1, m)
		}
		named := c.MachineType == m.name
		plain := m.gpu == "" && !m.shared && slices.Contains(general, family(m.name))
		switch {
		case !spec.Accelerator.IsZero() && m.gpu != "":
			if c.MachineType != "" && !named {
				m.unfit = "is " + m.name + "; Config.MachineType is " + c.MachineType
			}
			found = append(found, m)
		case c.MachineType != "" && !named, m.unfit != "":
		case spec.Accelerator.IsZero() && (plain || named):
			found = append(found, m)
		}
	}
	if !spec.Accelerator.IsZero() {
		for _, a := range offered {
			found = append(found, c.withAdded(n1, a, spec)...)
		}
	}
	found = slices.DeleteFunc(found, func(m machine) bool {
		a, known := m.accelerator(spec.Accelerator)
		return !known || !spec.Accelerator.IsZero() && !spec.Accelerator.Matches(a) ||
			float64(m.vcpus) < spec.VCPUs || m.memory < spec.MemoryGiB || spec.Arch != "" && spec.Arch != m.arch
	})
	slices.SortStableFunc(found, func(a, b machine) int {
		return cmp.Or(a.gpus-b.gpus, a.vcpus-b.vcpus, cmp.Compare(a.memory, b.memory), strings.Compare(a.kind(), b.kind()))
	})
	return found
}

// withAdded returns N1 machines with GPUs of a type: for each number of them the usual machine
// or, if that is too small for the spec, the smallest one that fits.
func (c Config) withAdded(n1 []machine, a *computepb.AcceleratorType, spec driver.Query) []machine {
	var found []machine
	for gpus, limit := range limits[a.GetName()] {
		if most := int(a.GetMaximumCardsPerInstance()); most > 0 && gpus > most {
			continue
		}
		var best *machine
		for _, m := range n1 {
			switch {
			case m.vcpus > limit.vcpus, m.memory > limit.memory, float64(m.vcpus) < spec.VCPUs, m.memory < spec.MemoryGiB,
				c.MachineType == "" && m.vcpus < min(usual[gpus], limit.vcpus),
				c.MachineType == "" && !strings.HasPrefix(m.name, "n1-standard-") && !strings.HasPrefix(m.name, "n1-highmem-"),
				c.MachineType != "" && c.MachineType != m.name:
				continue
			}
			if best == nil || cmp.Or(m.vcpus-best.vcpus, cmp.Compare(m.memory, best.memory)) < 0 {
				best = &m
			}
		}
		if best != nil {
			m := *best
			m.gpu, m.gpus, m.added = a.GetName(), gpus, true
			found = append(found, m)
		}
	}
	return found
}

func roundUp(f float64) int64 { return int64(math.Ceil(min(f, 1<<40))) }
