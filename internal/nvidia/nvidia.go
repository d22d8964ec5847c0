// Package nvidia reads the lists of devices that nvidia-smi prints. A list may have lines of other kinds: a warning of the
// driver's, or what it says of a device that it has lost. They take nothing from the devices that are well.
package nvidia

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/accelerators"
)

// Query is the command whose output [Devices] reads.
const Query = "nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits"

// A Device is one row of a list.
type Device struct {
	// Name is what the driver calls it.
	Name string
	// MemoryMiB is its memory. Zero means that it does not tell, as one that shares the processor's.
	MemoryMiB float64
	// Row is its place among the rows, those of unwell devices included.
	Row int
}

// Devices reads rows of name and memory, and returns the devices that are well. Odd are the lines that are none: rows of
// devices that cannot be used, and everything else that is not empty. Rows is how many of all lines are rows.
func Devices(text string) (well []Device, odd []string, rows int) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, memory, isRow := strings.Cut(line, ",")
		mib, healthy, isMemory := Memory(memory)
		switch isRow = isRow && isMemory; {
		case line == "":
			continue
		case isRow && healthy && Tells(name):
			well = append(well, Device{strings.TrimSpace(name), mib, rows})
		default:
			odd = append(odd, line)
		}
		if isRow {
			rows++
		}
	}
	return well, odd, rows
}

// unknown are nvidia-smi's words for a value that a device in good health does not tell.
var unknown = []string{"N/A", "Not Supported", "Insufficient Permissions"}

// Memory reads a value of memory in MiB: 0 is one that the device does not tell. A device is unwell that has, in brackets,
// something else in its place: "[GPU requires reset]", "[Unknown Error]". ok is false for a text that is no value.
func Memory(text string) (mib float64, well, ok bool) {
	text = strings.TrimSpace(text)
	if word, bracketed := strings.CutPrefix(text, "["); bracketed || slices.Contains(unknown, text) {
		word = strings.TrimSuffix(word, "]")
		return 0, slices.Contains(unknown, word), true
	}
	mib, err := strconv.ParseFloat(strings.TrimSuffix(text, " MiB"), 64)
	if err != nil || !(mib >= 0 && mib < 1<<40) {
		return 0, false, false
	}
	return mib, true, true
}

// Tells reports whether a value is one, and no words for none, such as "[Unknown Error]" or "NVIDIA-SMI has failed".
func Tells(value string) bool {
	value = strings.TrimSpace(value)
	return value != "" && !strings.HasPrefix(value, "[") && !strings.HasPrefix(value, "NVIDIA-SMI") && value != "N/A"
}

// String returns the row: "NVIDIA L4, 23034".
func (d Device) String() string {
	if d.MemoryMiB == 0 {
		return d.Name
	}
	return d.Name + ", " + strconv.FormatFloat(d.MemoryMiB, 'f', -1, 64)
}

// Accelerator returns what the device is: by a name that the catalogue has, or else by its own, as an exact one.
func (d Device) Accelerator() accelerators.Accelerator {
	a, err := accelerators.Reported(d.Name, d.MemoryMiB)
	if err != nil || a.IsZero() {
		return accelerators.Accelerator{Name: d.Name, Count: 1, MemoryGiB: d.MemoryMiB / 1024, Exact: true}
	}
	return a
}

// Level gives devices of one kind the least memory that one of them has. Their memories differ a little if one has a display,
// or corrects errors.
func Level(devices []accelerators.Accelerator) {
	var kinds [][]int
next:
	for i, a := range devices {
		for k, kind := range kinds {
			if isAlike(devices[kind[0]], a) {
				kinds[k] = append(kind, i)
				continue next
			}
		}
		kinds = append(kinds, []int{i})
	}
	for _, kind := range kinds {
		least := devices[kind[0]].MemoryGiB
		for _, i := range kind {
			if has := devices[i].MemoryGiB; has > 0 && (least == 0 || has < least) {
				least = has
			}
		}
		for _, i := range kind {
			devices[i].MemoryGiB = least
		}
	}
}

// isAlike reports whether two devices are of one kind, and have the same memory but for what a display or the correction of
// errors takes.
func isAlike(a, b accelerators.Accelerator) bool {
	return a.Name == b.Name && a.FormFactor == b.FormFactor && a.Exact == b.Exact && a.Count == b.Count &&
		(a.MemoryGiB == 0 || b.MemoryGiB == 0 || a.Matches(b) && b.Matches(a))
}

// Kinds returns the devices as one accelerator for each kind, with their number and the least memory of one.
func Kinds(devices []Device) (kinds []accelerators.Accelerator) {
	all := make([]accelerators.Accelerator, len(devices))
	for i, d := range devices {
		all[i] = d.Accelerator()
	}
	Level(all)
	var of []accelerators.Accelerator
	for _, a := range all {
		i := slices.Index(of, a)
		if i < 0 {
			i = len(of)
			of, kinds = append(of, a), append(kinds, a)
			kinds[i].Count = 0
		}
		kinds[i].Count++
	}
	return kinds
}

// Best returns the kind of accelerator that satisfies a wish, if there is one, or else the first. Those of another kind beside
// it are no fault.
func Best(kinds []accelerators.Accelerator, want accelerators.Accelerator) (has accelerators.Accelerator, suits bool) {
	for _, k := range kinds {
		if want.OrMore().Matches(k) {
			return k, true
		}
	}
	if len(kinds) > 0 {
		has = kinds[0]
	}
	return has, want.IsZero()
}

// Text names all kinds: "A100-80GB-SXM:2 and "Quadro P400"-2GB".
func Text(kinds []accelerators.Accelerator) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.String()
	}
	return strings.Join(names, " and ")
}
