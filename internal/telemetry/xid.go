package telemetry

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A rule says what an Xid means for the device.
type rule struct {
	text     string
	severity Severity
	// twice is the severity of the second within a time. Zero has no such rule, and ever counts for as long as the node lives.
	twice  Severity
	within time.Duration
}

const ever = time.Duration(1<<63 - 1)

// xids has NVIDIA's errors, with what its catalog says is to be done at once.
// https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
var xids = map[int]rule{}

// xidGroups fills xids.
var xidGroups = []struct {
	rule
	numbers []int
}{
	{rule{"illegal access by a program, or a bad instruction", Note, Replace, ever}, []int{13}},
	{rule{"memory page fault, of a program or of the GPU's MMU", Note, Replace, ever}, []int{31}},
	{rule{"invalid or corrupted push buffer", Note, Replace, ever}, []int{32}},
	{rule{"graphics engine class error", Note, Replace, ever}, []int{69}},
	{rule{"a program's channel was reset after another error", Note, Note, 0}, []int{43}},
	{rule{"a program's channels were cleaned up after another error", Note, Note, 0}, []int{45}},
	{rule{"an engine of the GPU failed", Note, Note, 0}, []int{8, 11, 39, 40, 41, 68}},
	{rule{"a row of memory was replaced; a reset is due", Due, Due, 0}, []int{63}},
	{rule{"memory errors that were corrected", Note, Note, 0}, []int{92, 157, 160, 161}},
	{rule{"contained memory error that could not be corrected", Restart, Replace, ever}, []int{94}},
	{rule{"memory error that could not be corrected", Replace, Replace, 0}, []int{48, 140, 171, 172}},
	{rule{"a row of memory could not be replaced", Replace, Replace, 0}, []int{64}},
	{rule{"uncontained memory error that could not be corrected", Replace, Replace, 0}, []int{95}},
	{rule{"a resource that the GPU replaces for errors has run out", Replace, Replace, 0}, []int{156}},
	{rule{"the GPU has stopped processing", Replace, Replace, 0}, []int{46}},
	{rule{"a processor inside the GPU has halted", Replace, Replace, 0}, []int{62}},
	{rule{"a context switch of the GPU timed out", Replace, Replace, 0}, []int{109}},
	{rule{"security fault of the GPU", Replace, Replace, 0}, []int{110}},
	{rule{"the GPU's system processor does not answer", Replace, Replace, 0}, []int{119}},
	{rule{"the GPU's system processor failed", Replace, Replace, 0}, []int{120}},
	{rule{"the GPU could not be initialized", Replace, Replace, 0}, []int{143, 158}},
	{rule{"NVLink error", Note, Replace, nvlinkWithin}, []int{74, 144, 145, 146, 147, 148, 149, 150}},
	{rule{"the GPU has fallen off the bus", Replace, Replace, 0}, []int{79}},
	{rule{"a power cable of the GPU is not connected", Replace, Replace, 0}, []int{54}},
	{rule{"rotation of the GPU's keys failed", Replace, Replace, 0}, []int{151}},
	{rule{"the recovery that the GPU needs has changed", Note, Note, 0}, []int{xidRecovery}},
}

const (
	xidOffBus   = 79
	xidRecovery = 154
)

func init() {
	for _, g := range xidGroups {
		for _, n := range g.numbers {
			xids[n] = g.rule
		}
	}
}

var (
	xidLine     = regexp.MustCompile(`NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\)[^:]*: (\d+)\b[,:]?\s*(.*)`)
	offBusLine  = regexp.MustCompile(`NVRM:.*?GPU (?:at )?(?:PCI:)?([0-9a-fA-F:.]*[0-9a-fA-F])?.*has fallen off the bus`)
	recovery    = regexp.MustCompile(`recovery action changed from .* to 0x[0-9a-fA-F]+ \(([^)]*)\)`)
	amdLine     = regexp.MustCompile(`amdgpu ([0-9a-fA-F:.]+)?.*?(ring \S+ timeout|GPU reset|uncorrectable)`)
	fatal       = regexp.MustCompile(`(?i)\bfatal\b`)
	nonfatal    = regexp.MustCompile(`(?i)\bnon-?fatal\b`)
	resetIsOver = regexp.MustCompile(`GPU reset.*succeeded`)
)

// A kernelFault is a line of the kernel's log about a device.
type kernelFault struct {
	pci    string
	xid    int // 0 for a device of AMD
	detail string
	rule   rule
}

// parseKernel reads a line of the kernel's log. It reports false for one that is about no fault of an accelerator.
func parseKernel(line string) (kernelFault, bool) {
	if m := xidLine.FindStringSubmatch(line); m != nil {
		xid, err := strconv.Atoi(m[2])
		if err != nil {
			return kernelFault{}, false
		}
		return xidFault(pciAddress(m[1]), xid, m[3]), true
	}
	if m := offBusLine.FindStringSubmatch(line); m != nil {
		return xidFault(pciAddress(m[1]), xidOffBus, ""), true
	}
	if m := amdLine.FindStringSubmatch(line); m != nil && !resetIsOver.MatchString(line) {
		r := rule{"the driver reports: " + m[2], Restart, Replace, ever}
		if m[2] == "uncorrectable" {
			r.text = "memory error that could not be corrected"
		}
		return kernelFault{pci: pciAddress(strings.TrimSuffix(m[1], ":")), rule: r}, true
	}
	return kernelFault{}, false
}

// xidFault returns what an Xid means, whose line goes on with a detail.
func xidFault(pci string, xid int, detail string) kernelFault {
	r, known := xids[xid]
	if !known {
		r = rule{text: "an error that gputrain does not know"}
	}
	f := kernelFault{pci: pci, xid: xid, detail: detail, rule: r}
	switch {
	case xid == xidRecovery:
		m := recovery.FindStringSubmatch(detail)
		if m != nil && m[1] != "None" {
			f.rule = rule{"the GPU needs a recovery: " + m[1], Replace, Replace, 0}
		}
	case r.within == nvlinkWithin && fatal.MatchString(detail) && !nonfatal.MatchString(detail):
		f.rule = rule{"fatal NVLink error", Replace, Replace, 0}
	}
	return f
}

const nvlinkWithin = 10 * time.Minute

// kernelTime returns the time of a line of the kernel's log, in seconds since a moment that is the same for all lines that were
// read in one way: "[ 12.345678] text" of dmesg, "6,339,12345678,-;text" of /dev/kmsg, "1700000000.123456 host kernel: text" of
// journalctl.
func kernelTime(line string) (seconds float64, ok bool) {
	line = strings.TrimSpace(line)
	if rest, bracket := strings.CutPrefix(line, "["); bracket {
		stamp, _, closed := strings.Cut(rest, "]")
		n := number(strings.TrimSpace(stamp))
		return n, closed && n >= 0
	}
	if head, _, record := strings.Cut(line, ";"); record {
		if parts := strings.Split(head, ","); len(parts) >= 4 {
			n := number(parts[2])
			return n / 1e6, n >= 0
		}
	}
	stamp, _, _ := strings.Cut(line, " ")
	n := number(stamp)
	return n, n >= 0
}
