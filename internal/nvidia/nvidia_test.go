package nvidia

import (
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/accelerators"
)

// A list has the devices that are well, and tells everything else.
func TestDevices(t *testing.T) {
	for _, tt := range []struct {
		text string
		well string
		odd  int
		rows int
	}{
		{"", "", 0, 0},
		{"NVIDIA L4, 23034\r\nNVIDIA L4, 23034 MiB\n", "NVIDIA L4, 23034; NVIDIA L4, 23034", 0, 2},
		{"NVIDIA GB10, [N/A]\n", "NVIDIA GB10", 0, 1},
		{"NVIDIA L4, [Not Supported]\nNVIDIA L4, N/A\nNVIDIA L4, [Insufficient Permissions]", "NVIDIA L4; NVIDIA L4; NVIDIA L4", 0, 3},
		{"NVIDIA L4, 23034\nNVIDIA L4, [GPU requires reset]\nNVIDIA L4, [Unknown Error]\n[GPU is lost], [GPU is lost]\n", "NVIDIA L4, 23034", 3, 4},
		{"WARNING: infoROM is corrupted at gpu 0000:B3:00.0\nNVIDIA L4, 23034\nNo, really\n", "NVIDIA L4, 23034", 2, 1},
		{"NVIDIA L4, -1\nNVIDIA L4, NaN\nNVIDIA L4, 1e300\n, 23034\n", "", 4, 1},
		{"NVIDIA-SMI has failed, 0\n", "", 1, 1},
	} {
		well, odd, rows := Devices(tt.text)
		var names []string
		for _, d := range well {
			names = append(names, d.String())
		}
		if got := strings.Join(names, "; "); got != tt.well || len(odd) != tt.odd || rows != tt.rows {
			t.Errorf("%q: %q, %q, %d rows", tt.text, got, odd, rows)
		}
	}
}

// Devices of one kind differ a little in memory. They count as one kind, with the least, and others do not.
func TestKinds(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"NVIDIA A40, 46068\nNVIDIA A40, 45634": "A40-44.564453125GB:2",
		"NVIDIA RTX A6000, 49140\nQuadro P400, 2048\nNVIDIA RTX A6000, 45634": `A6000-44.564453125GB:2 and "Quadro P400"-2GB`,
		"NVIDIA A100-SXM4-40GB, 40960\nNVIDIA A100-SXM4-80GB, 81920":          "A100-40GB-SXM and A100-80GB-SXM",
		"NVIDIA A100-SXM4-40GB, 40960\nNVIDIA A100-PCIE-40GB, 40960":          "A100-40GB-SXM and A100-40GB-PCIe",
		"Strange, 1024\nStrange, 1020\nStrange, 512":                          `"Strange"-0.99609375GB:2 and "Strange"-0.5GB`,
		"Tesla T4, [N/A]\nTesla T4, 15360":                                    "T4-15GB:2",
	} {
		well, _, _ := Devices(text)
		if got := Text(Kinds(well)); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	well, _, _ := Devices("Quadro P400, 2048\nNVIDIA L4, 23034\nNVIDIA L4, 23034")
	kinds := Kinds(well)
	if has, suits := Best(kinds, accelerators.L4(accelerators.Count(2))); !suits || has.Name != "L4" {
		t.Errorf("%v, %v", has, suits)
	}
	if has, suits := Best(kinds, accelerators.L4(accelerators.Count(3))); suits || has.Name != "Quadro P400" {
		t.Errorf("%v, %v", has, suits)
	}
	if has, suits := Best(nil, accelerators.Accelerator{}); !suits || !has.IsZero() {
		t.Errorf("%v, %v", has, suits)
	}
}

// What a machine prints is read without a panic, whatever it is.
func FuzzDevices(f *testing.F) {
	f.Add("NVIDIA L4, 23034\nNVIDIA L4, [GPU requires reset]\n")
	f.Add("WARNING: infoROM is corrupted at gpu 0000:B3:00.0\n")
	f.Fuzz(func(t *testing.T, text string) {
		well, odd, rows := Devices(text)
		if len(well) > rows || len(well)+len(odd) > strings.Count(text, "\n")+1 {
			t.Errorf("%d well, %d odd, %d rows", len(well), len(odd), rows)
		}
		n := 0.0
		for _, k := range Kinds(well) {
			n += k.Count
		}
		if n != float64(len(well)) || slices.ContainsFunc(well, func(d Device) bool { return d.Row >= rows }) {
			t.Errorf("%v of %d", n, len(well))
		}
	})
}
