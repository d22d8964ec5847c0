package telemetry

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// parseRow reads one line of nvidia-smi in the format csv,noheader,nounits, which has the values of the fields, in their order.
// It reports false for a line that is cut, or is none. What a device does not tell stands there as "[N/A]", "[Not Supported]" or
// "[Unknown Error]".
func parseRow(fields []string, line string) (Sample, bool) {
	values := strings.Split(line, ",")
	if len(values) != len(fields) || len(fields) == 0 || fields[0] != "index" {
		return Sample{}, false
	}
	index, err := strconv.Atoi(strings.TrimSpace(values[0]))
	if err != nil || index < 0 || index >= maxDevices {
		return Sample{}, false
	}
	s := newSample(index)
	for i, field := range fields {
		v := strings.TrimSpace(values[i])
		switch field {
		case "uuid":
			s.UUID = told(v)
		case "pci.bus_id":
			s.PCI = pciAddress(v)
		case "name":
			s.Name = told(v)
		case "utilization.gpu":
			s.Utilization = number(v)
		case "utilization.memory":
			s.MemoryUtilization = number(v)
		case "memory.used":
			s.MemoryMiB = number(v)
		case "memory.total":
			s.MemoryTotalMiB = number(v)
		case "temperature.gpu":
			s.Celsius = number(v)
		case "power.draw":
			s.Watts = number(v)
		case "clocks.sm":
			s.ClockMHz = number(v)
		case "ecc.errors.uncorrected.volatile.total":
			s.Uncorrected = counter(v)
		case "clocks_event_reasons.active", "clocks_throttle_reasons.active":
			s.Slowed = slowed(v)
		}
	}
	return s, true
}

// A node has maxDevices accelerators at most, whatever it reports.
const maxDevices = 1024

// told returns a value, or "" in place of the words for none.
func told(v string) string {
	if strings.HasPrefix(v, "[") || v == "N/A" {
		return ""
	}
	return v
}

// number returns a value as a number, or NaN.
func number(v string) float64 {
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsInf(n, 0) || n < 0 {
		return math.NaN()
	}
	return n
}

// counter returns a value that counts, or -1.
func counter(v string) int64 {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

var pciForm = regexp.MustCompile(`^([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})(\.[0-7])?$`)

// pciAddress returns a PCI address in one form, "0000:3b:00.0": nvidia-smi writes "00000000:3B:00.0", and the kernel's log
// "0000:3b:00". It returns "" for what is none.
func pciAddress(v string) string {
	m := pciForm.FindStringSubmatch(strings.ToLower(v))
	if m == nil {
		return ""
	}
	domain, function := m[1], m[4]
	for len(domain) > 4 && domain[0] == '0' {
		domain = domain[1:]
	}
	if function == "" {
		function = ".0"
	}
	return domain + ":" + m[2] + ":" + m[3] + function
}

// slowReasons are the bits of NVML's clock event reasons that show that something is wrong.
// https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
var slowReasons = []struct {
	bit  uint64
	text string
}{
	{0x20, "too hot"}, {0x40, "too hot"}, {0x80, "power brake"}, {0x8, "hardware slowdown"},
}

// slowed returns the first reason among those of a bit mask, or "".
func slowed(v string) string {
	mask, err := strconv.ParseUint(strings.TrimPrefix(v, "0x"), 16, 64)
	if err != nil {
		return ""
	}
	for _, r := range slowReasons {
		if mask&r.bit != 0 {
			return r.text
		}
	}
	return ""
}

// A remap is a device's report about the rows of its memory that are replaced.
type remap struct {
	pci             string
	pending, failed bool
}

// parseRemap reads a line "00000000:3B:00.0, No, No", or with numbers in place of the words.
func parseRemap(line string) (remap, bool) {
	values := strings.Split(line, ",")
	if len(values) != 3 {
		return remap{}, false
	}
	pci := pciAddress(strings.TrimSpace(values[0]))
	yes := func(v string) bool { v = strings.TrimSpace(v); return v == "Yes" || counter(v) > 0 }
	return remap{pci, yes(values[1]), yes(values[2])}, pci != ""
}

// lostDevice is what nvidia-smi says in place of a sample if a device does not answer: "Unable to determine the device handle
// for GPU0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU".
var lostDevice = regexp.MustCompile(`(?i)unable to determine the device handle for GPU\s*([0-9a-f:.]*[0-9a-f])|\bGPU is lost\b`)

// parseLost returns the device, if the line names one, that nvidia-smi cannot reach any more.
func parseLost(line string) (pci string, lost bool) {
	m := lostDevice.FindStringSubmatch(line)
	if m == nil {
		return "", false
	}
	return pciAddress(m[1]), true
}
