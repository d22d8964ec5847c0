package telemetry

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// parseAMD reads what "amd-smi metric --json", "amd-smi list --json" or "rocm-smi ... --json" has printed, in any of their
// releases. A list has no samples, but the addresses of the devices.
func parseAMD(text []byte) []Sample {
	var all any
	if json.Unmarshal(afterWarnings(text), &all) != nil {
		return nil
	}
	switch v := all.(type) {
	case []any:
		return amdSMI(v)
	case map[string]any:
		if list, ok := v["gpu_data"].([]any); ok { // since release 7 of ROCm
			return amdSMI(list)
		}
		return rocmSMI(v)
	}
	return nil
}

// afterWarnings returns the JSON in an output that may begin with lines of warnings.
func afterWarnings(text []byte) []byte {
	for start := 0; start < len(text); start++ {
		if start == 0 || text[start-1] == '\n' {
			if c := text[start]; c == '{' || c == '[' && !strings.HasPrefix(string(text[start:min(start+5, len(text))]), "[WARN") {
				return text[start:]
			}
		}
	}
	return nil
}

func amdSMI(list []any) []Sample {
	var samples []Sample
	for _, entry := range list {
		gpu, _ := entry.(map[string]any)
		index, ok := gpu["gpu"].(float64)
		if !ok || index < 0 || index >= maxDevices || len(samples) == maxDevices {
			continue
		}
		s := newSample(int(index))
		s.PCI, s.UUID = pciAddress(textAt(gpu, "bdf")), told(textAt(gpu, "uuid"))
		s.Utilization = amount(at(gpu, "usage", "gfx_activity"))
		s.MemoryUtilization = amount(at(gpu, "usage", "umc_activity"))
		s.MemoryMiB = amount(at(gpu, "mem_usage", "used_vram"))
		s.MemoryTotalMiB = amount(at(gpu, "mem_usage", "total_vram"))
		s.Celsius = first(amount(at(gpu, "temperature", "hotspot")), amount(at(gpu, "temperature", "edge")))
		s.Watts = amount(at(gpu, "power", "socket_power"))
		s.ClockMHz = amount(at(gpu, "clock", "gfx_0", "clk"))
		if n := amount(at(gpu, "ecc", "total_uncorrectable_count")); !math.IsNaN(n) && n < math.MaxInt64/2 {
			s.Uncorrected = int64(n)
		}
		samples = append(samples, s)
	}
	return samples
}

func rocmSMI(cards map[string]any) []Sample {
	var samples []Sample
	for name, entry := range cards {
		number, ok := strings.CutPrefix(name, "card")
		index, err := strconv.Atoi(number)
		card, isCard := entry.(map[string]any)
		if !ok || err != nil || !isCard || index < 0 || index >= maxDevices || len(samples) == maxDevices {
			continue
		}
		s := newSample(index)
		s.PCI = pciAddress(textAt(card, "PCI Bus"))
		s.Utilization = amount(card["GPU use (%)"])
		s.MemoryUtilization = first(amount(card["GPU Memory Read/Write Activity (%)"]), amount(card["GPU memory use (%)"]))
		s.MemoryMiB = amount(card["VRAM Total Used Memory (B)"]) / (1 << 20)
		s.MemoryTotalMiB = amount(card["VRAM Total Memory (B)"]) / (1 << 20)
		s.Celsius = first(amount(card["Temperature (Sensor junction) (C)"]), amount(card["Temperature (Sensor edge) (C)"]))
		s.Watts = first(amount(card["Average Graphics Package Power (W)"]), amount(card["Current Socket Graphics Package Power (W)"]))
		samples = append(samples, s)
	}
	slices.SortFunc(samples, func(a, b Sample) int { return cmp.Compare(a.Index, b.Index) })
	return samples
}

// at returns the value under a path of names, or nil.
func at(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func textAt(v any, path ...string) string {
	s, _ := at(v, path...).(string)
	return s
}

// amount returns a number that stands there as such, as text, or with its unit: {"value": 3, "unit": "%"}. It is NaN if there is
// none.
func amount(v any) float64 {
	switch v := v.(type) {
	case float64:
		if v >= 0 {
			return v
		}
	case string:
		return number(strings.TrimSpace(v))
	case map[string]any:
		if _, nested := v["value"].(map[string]any); !nested {
			return amount(v["value"])
		}
	}
	return math.NaN()
}

// first returns the first number that is one.
func first(numbers ...float64) float64 {
	for _, n := range numbers {
		if !math.IsNaN(n) {
			return n
		}
	}
	return math.NaN()
}

// parseDRM reads a line of the sampler about a device of AMD: "drm INDEX PCI PERCENT USED TOTAL", in bytes.
func parseDRM(line string) (Sample, bool) {
	words := strings.Fields(line)
	if len(words) != 6 || words[0] != "drm" {
		return Sample{}, false
	}
	index, err := strconv.Atoi(words[1])
	if err != nil || index < 0 || index >= maxDevices {
		return Sample{}, false
	}
	s := newSample(index)
	s.PCI, s.Utilization = pciAddress(words[2]), number(words[3])
	s.MemoryMiB, s.MemoryTotalMiB = number(words[4])/(1<<20), number(words[5])/(1<<20)
	return s, true
}
