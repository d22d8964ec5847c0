// Package telemetry samples a node's accelerators and finds their faults: by one process on the node for as long as [Watch]
// runs, which samples them and follows the kernel's log, or by one command for a single sample ([Once]). It knows the outputs of
// nvidia-smi, amd-smi and rocm-smi, what Linux reports of AMD's devices, and NVIDIA's Xid errors.
//
// What cannot be read is unknown, never healthy: see [Report.KernelLog].
package telemetry

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/ssh"
)

// Commands run where the accelerators can be seen: on the machine, or in a container there.
type Commands interface {
	Open(ctx context.Context, command string) (*ssh.Session, error)
}

// A Sample has the state of one device at one moment. A number that the device does not report is NaN.
type Sample struct {
	// Index is the device's number on the node, as its vendor's tools count. UUID and PCI identify it, PCI in the form
	// "0000:3b:00.0"; each may be empty. Name is the driver's name of it.
	Index           int
	UUID, PCI, Name string
	// Utilization is the part of the last seconds in which the device worked, and MemoryUtilization that in which its memory
	// was read or written, in percent.
	Utilization, MemoryUtilization float64
	// MemoryMiB is in use, of MemoryTotalMiB.
	MemoryMiB, MemoryTotalMiB float64
	// Celsius is its temperature, Watts its power, and ClockMHz the clock of its processors.
	Celsius, Watts, ClockMHz float64
	// Uncorrected counts the memory errors that could not be corrected, since the driver was loaded. -1 means that the device
	// does not tell.
	Uncorrected int64
	// Slowed is why the hardware holds its clock down: "too hot", "power brake". It is empty if it does not, and for what is
	// normal, as the power limit.
	Slowed string
	// RemapPending means that rows of its memory are replaced at its next reset, and RemapFailed that they could not be. Only
	// Once tells.
	RemapPending, RemapFailed bool
}

// newSample returns a sample of which nothing is known yet.
func newSample(index int) Sample {
	none := math.NaN()
	return Sample{
		Index: index, Utilization: none, MemoryUtilization: none, MemoryMiB: none, MemoryTotalMiB: none,
		Celsius: none, Watts: none, ClockMHz: none, Uncorrected: -1,
	}
}

// Device names the device, by its PCI address if that is known.
func (s Sample) Device() string {
	if s.PCI != "" {
		return s.PCI
	}
	return fmt.Sprintf("GPU %d", s.Index)
}

// A Severity says how a fault affects the work on the device.
type Severity int

const (
	// Note is worth knowing. Nothing needs to be done.
	Note Severity = iota
	// Due means that the device goes on, and its node is to be replaced before the next start.
	Due
	// Restart means that the program must start again. The node is good.
	Restart
	// Replace means that the node cannot be used any more.
	Replace
)

// String returns the severity in lower case: "replace".
func (s Severity) String() string {
	names := []string{"note", "due", "restart", "replace"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("Severity(%d)", int(s))
	}
	return names[s]
}

// A Fault is something wrong with a device, or with the way to it.
type Fault struct {
	// Device is that of a Sample, or empty if the fault is that of the node. Xid is NVIDIA's number of the fault, or 0.
	Device string
	Xid    int
	// Text says what it is, and Severity what it means.
	Text     string
	Severity Severity
	// Gone means that the device cannot be reached any more: the driver has lost it.
	Gone bool
}

// Error names the device and the fault: "0000:3b:00.0: Xid 79: the GPU has fallen off the bus".
func (f Fault) Error() string {
	var words []string
	if f.Device != "" {
		words = append(words, f.Device)
	}
	if f.Xid > 0 {
		words = append(words, fmt.Sprintf("Xid %d", f.Xid))
	}
	return strings.Join(append(words, f.Text), ": ")
}

// A Report of a Watch is a sample of each device, or a fault.
type Report struct {
	// Samples are in the order of the devices, or nil.
	Samples []Sample
	// KernelLog says whether faults are read from the node's kernel log. If they are not, most kinds of fault are never
	// reported, and that there is none does not mean that the devices are healthy.
	KernelLog bool
	// Fault is nil in a report of samples.
	Fault *Fault
}

// Only returns the samples of the devices with these names, as CUDA_VISIBLE_DEVICES and the like have them: indices, or UUIDs
// that may be cut short. A name of a part of a device (MIG) stands for all of them, and so do no names.
func Only(samples []Sample, names []string) []Sample {
	if len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "MIG-") }) {
		return samples
	}
	return slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool {
		return !slices.ContainsFunc(names, func(n string) bool {
			return n == strconv.Itoa(s.Index) || strings.HasPrefix(n, "GPU-") && strings.HasPrefix(s.UUID, n)
		})
	})
}
