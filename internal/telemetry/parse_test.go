package telemetry

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

const allFields = "index,uuid,pci.bus_id,name,memory.used,memory.total,utilization.gpu,utilization.memory,temperature.gpu,power.draw,clocks.sm,ecc.errors.uncorrected.volatile.total,clocks_event_reasons.active"

// recorded returns the lines of a recorded output.
func recorded(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rows returns the samples of the rows in a text.
func rows(text string) (all []Sample) {
	for line := range strings.Lines(text) {
		if s, ok := parseRow(strings.Split(allFields, ","), strings.TrimSuffix(line, "\n")); ok {
			all = append(all, s)
		}
	}
	return all
}

// same compares samples, whose NaNs are equal.
func same(a, b Sample) bool {
	eq := func(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) }
	return a.Index == b.Index && a.UUID == b.UUID && a.PCI == b.PCI && a.Name == b.Name && a.Uncorrected == b.Uncorrected && a.Slowed == b.Slowed &&
		eq(a.Utilization, b.Utilization) && eq(a.MemoryUtilization, b.MemoryUtilization) && eq(a.MemoryMiB, b.MemoryMiB) && eq(a.MemoryTotalMiB, b.MemoryTotalMiB) &&
		eq(a.Celsius, b.Celsius) && eq(a.Watts, b.Watts) && eq(a.ClockMHz, b.ClockMHz)
}

func wantSamples(t *testing.T, got []Sample, want ...Sample) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d samples: %+v", len(got), got)
	}
	for i := range want {
		if !same(got[i], want[i]) {
			t.Errorf("got  %+v\nwant %+v", got[i], want[i])
		}
	}
}

func TestRowsOfNvidiaSMI(t *testing.T) {
	none := math.NaN()
	wantSamples(t, rows(recorded(t, "smi-h100.txt")),
		Sample{Index: 0, UUID: "GPU-7bb6a3a4-3c0e-8f38-4a3e-1a6a0d6ae5f2", PCI: "0000:1b:00.0", Name: "NVIDIA H100 80GB HBM3", Utilization: 98, MemoryUtilization: 61, MemoryMiB: 71221, MemoryTotalMiB: 81559, Celsius: 57, Watts: 612.43, ClockMHz: 1755},
		Sample{Index: 1, UUID: "GPU-2f1c0e8a-6c0d-9a54-5d9d-6b1f0f6c8a11", PCI: "0000:43:00.0", Name: "NVIDIA H100 80GB HBM3", Utilization: 100, MemoryUtilization: 60, MemoryMiB: 71221, MemoryTotalMiB: 81559, Celsius: 61, Watts: 640.02, ClockMHz: 1410, Uncorrected: 2, Slowed: "too hot"},
	)
	broken := newSample(1)
	broken.PCI, broken.Name = "0000:02:00.0", "NVIDIA GeForce RTX 3090"
	wantSamples(t, rows(recorded(t, "smi-na.txt")),
		Sample{Index: 0, UUID: "GPU-9a1e4d0c-1111-2222-3333-444455556666", PCI: "0000:01:00.0", Name: "NVIDIA GeForce RTX 3090", Utilization: 7, MemoryUtilization: 1, MemoryMiB: 512, MemoryTotalMiB: 24576, Celsius: 41, Watts: 35.11, ClockMHz: 210, Uncorrected: -1},
		broken,
		Sample{Index: 2, UUID: "GPU-aaaaaaaa-1111-2222-3333-444455556666", PCI: "0000:03:00.0", Name: "NVIDIA A100-SXM4-40GB", Utilization: none, MemoryUtilization: none, MemoryMiB: 12001, MemoryTotalMiB: 40960, Celsius: 33, Watts: 71.90, ClockMHz: 1095},
	)
	line, _, _ := strings.Cut(recorded(t, "smi-h100.txt"), "\n")
	fields := strings.Split(allFields, ",")
	for i := range strings.LastIndex(line, ",") {
		if s, ok := parseRow(fields, line[:i]); ok {
			t.Errorf("a line that is cut passes for %+v", s)
		}
	}
}

func TestOutputsOfAMD(t *testing.T) {
	none := math.NaN()
	idle := newSample(1)
	idle.MemoryTotalMiB, idle.MemoryMiB, idle.Celsius = 196592, 284, 40
	wantSamples(t, parseAMD([]byte(recorded(t, "amd-smi-6.json"))),
		Sample{Index: 0, Utilization: 93, MemoryUtilization: 41, MemoryMiB: 131072, MemoryTotalMiB: 196592, Celsius: 66, Watts: 512, ClockMHz: 2100, Uncorrected: 1},
		idle,
	)
	newer := newSample(0)
	newer.Utilization, newer.MemoryMiB, newer.MemoryTotalMiB = 0, 284, 196288
	wantSamples(t, parseAMD([]byte(recorded(t, "amd-smi-7.json"))), newer)
	wantSamples(t, parseAMD([]byte(recorded(t, "rocm-smi.json"))),
		Sample{Index: 0, PCI: "0000:c1:00.0", Utilization: 97, MemoryUtilization: 33, MemoryMiB: 31138512896.0 / (1 << 20), MemoryTotalMiB: 65520, Celsius: 61, Watts: 288, ClockMHz: none, Uncorrected: -1},
		Sample{Index: 1, PCI: "0000:c5:00.0", Utilization: none, MemoryUtilization: none, MemoryMiB: 11358208.0 / (1 << 20), MemoryTotalMiB: 65520, Celsius: none, Watts: 41, ClockMHz: none, Uncorrected: -1},
	)
	if got := parseAMD([]byte("ERROR: not a device")); got != nil {
		t.Errorf("%+v", got)
	}
	plain := newSample(3)
	plain.PCI, plain.Utilization, plain.MemoryMiB, plain.MemoryTotalMiB = "0000:c1:00.0", 55, 1, 2
	got, ok := parseDRM("drm 3 0000:c1:00.0 55 1048576 2097152")
	if !ok {
		t.Fatal("not read")
	}
	wantSamples(t, []Sample{got}, plain)
}

// The outputs of amd-smi are one sample each, with the addresses of its list.
func TestStreamOfAMD(t *testing.T) {
	text := "tool amd-smi\njson\n" + recorded(t, "amd-smi-list.json") + "end 0\njson\n" + recorded(t, "amd-smi-6.json") + "end 0\n"
	var s stream
	var got []Sample
	(&lines{line: func(l string) { got = append(got, s.line(l).samples...) }}).Write([]byte(text))
	if len(got) != 2 || got[0].PCI != "0000:05:00.0" || got[1].PCI != "0000:26:00.0" || got[1].UUID != "" || got[0].Utilization != 93 {
		t.Errorf("%+v", got)
	}
}

func TestRemappedRows(t *testing.T) {
	for line, want := range map[string]remap{
		"00000000:3B:00.0, No, No":   {pci: "0000:3b:00.0"},
		"00000000:3B:00.0, Yes, No":  {"0000:3b:00.0", true, false},
		"00000000:3B:00.0, 0, 1":     {"0000:3b:00.0", false, true},
		"00000000:3B:00.0, [N/A], 0": {pci: "0000:3b:00.0"},
	} {
		if got, ok := parseRemap(line); !ok || got != want {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if _, ok := parseRemap(`Field "remapped_rows.pending" is not a valid field to query.`); ok {
		t.Error("an error passes for a row")
	}
}

func TestDevicesThatNvidiaSMILost(t *testing.T) {
	for line, want := range map[string]string{
		"Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU": "0000:3b:00.0",
		"Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error":                                      "0000:3b:00.0",
		"0, [GPU is lost], [GPU is lost]": "",
	} {
		if pci, lost := parseLost(line); !lost || pci != want {
			t.Errorf("%q: %q, %t", line, pci, lost)
		}
	}
	if _, lost := parseLost("Failed to initialize NVML: Driver/library version mismatch"); lost {
		t.Error("that is no lost device")
	}
}

func TestOnly(t *testing.T) {
	all := []Sample{{Index: 0, UUID: "GPU-aaaa"}, {Index: 1, UUID: "GPU-bbbb"}, {Index: 11, UUID: "GPU-cccc"}}
	for _, tt := range []struct {
		names string
		want  int
	}{{"", 3}, {"1", 1}, {"0,11", 2}, {"GPU-bb,GPU-cccc", 2}, {"MIG-1234", 3}, {"7", 0}} {
		var names []string
		if tt.names != "" {
			names = strings.Split(tt.names, ",")
		}
		if got := Only(all, names); len(got) != tt.want {
			t.Errorf("%s: %+v", tt.names, got)
		}
	}
}

func TestTimesOfTheKernelsLog(t *testing.T) {
	for line, want := range map[string]float64{
		"[ 5400.000100] NVRM: Xid": 5400.0001,
		"[5400.5]":                 5400.5,
		"3,1339,5400000100,-;NVRM: Xid (PCI:0000:1b:00): 79,": 5400.0001,
		"1700000000.123456 host kernel: NVRM: Xid":            1700000000.123456,
	} {
		if got, ok := kernelTime(line); !ok || math.Abs(got-want) > 1e-6 {
			t.Errorf("%q: %v, %t", line, got, ok)
		}
	}
	for _, line := range []string{"", "[", "[Sun Mar 29 19:20:37 2026] NVRM", "Nov 26 host kernel:", "a,b,c,d;x"} {
		if got, ok := kernelTime(line); ok {
			t.Errorf("%q: %v", line, got)
		}
	}
}

// Each line of a recorded log, with what it means.
func TestLinesOfTheKernelsLog(t *testing.T) {
	type want struct {
		pci      string
		xid      int
		severity Severity
	}
	wants := map[string][]want{
		"dmesg.txt": {
			{"0000:43:00.0", 13, Note}, {"0000:43:00.0", 13, Note}, {"0000:43:00.0", 43, Note}, {"0000:1b:00.0", 94, Restart}, {"0000:9b:00.0", 48, Replace},
			{"0000:1b:00.0", 74, Replace}, {"0000:43:00.0", 145, Note}, {"0000:43:00.0", 149, Replace}, {"0000:1b:00.0", 79, Replace}, {"0000:1b:00.0", 79, Replace},
			{"0000:1b:00.0", 154, Replace}, {"0000:43:00.0", 154, Note}, {"0000:00:06.0", 31, Note},
		},
		"dmesg-amd.txt": {{"0000:05:00.0", 0, Restart}, {"0000:05:00.0", 0, Restart}, {"0000:26:00.0", 0, Restart}},
	}
	for name, want := range wants {
		i := 0
		for line := range strings.Lines(recorded(t, name)) {
			f, ok := parseKernel(line)
			if !ok {
				continue
			}
			if i == len(want) || f.pci != want[i].pci || f.xid != want[i].xid || f.rule.severity != want[i].severity {
				t.Errorf("%s: %s: %+v", name, line, f)
			}
			i++
		}
		if i < len(want) {
			t.Errorf("%s: %d lines", name, i)
		}
	}
}

// The table of errors is the one of the design, by severity.
func TestXids(t *testing.T) {
	for severity, all := range map[Severity][]int{
		Note:    {13, 31, 32, 69, 43, 45, 8, 11, 39, 40, 41, 68, 92, 157, 160, 161, 74, 144, 145, 146, 147, 148, 149, 150, 154, 999},
		Due:     {63},
		Restart: {94},
		Replace: {48, 64, 95, 140, 156, 171, 172, 46, 62, 109, 110, 119, 120, 143, 158, 79, 54, 151},
	} {
		for _, n := range all {
			if f := xidFault("", n, ""); f.rule.severity != severity || f.rule.text == "" {
				t.Errorf("%d: %+v", n, f.rule)
			}
		}
	}
}

func TestActionsOfXid154(t *testing.T) {
	for action, want := range map[string]Severity{"None": Note, "GPU Reset Required": Replace, "PF FLR": Replace, "Node Reboot Required": Replace, "Drain P2P": Replace, "Drain and Reset": Replace} {
		if f := xidFault("", 154, "GPU recovery action changed from 0x0 (None) to 0x1 ("+action+")"); f.rule.severity != want || want == Replace && !strings.Contains(f.rule.text, action) {
			t.Errorf("%s: %+v", action, f.rule)
		}
	}
}

func FuzzStream(f *testing.F) {
	for _, name := range []string{"smi-h100.txt", "smi-na.txt"} {
		f.Add("tool nvidia-smi " + allFields + "\n" + recorded(f, name) + "ended 0\n")
	}
	for _, name := range []string{"amd-smi-6.json", "amd-smi-7.json", "amd-smi-list.json", "rocm-smi.json"} {
		f.Add("tool amd-smi\njson\n" + recorded(f, name) + "\nend 0\n")
	}
	f.Add("kernel dmesg [ 1.5] x\n00000000:3B:00.0, Yes, No\ndrm 0 0000:c1:00.0 5 1 2\nend 0\ntool none\n")
	f.Fuzz(func(t *testing.T, text string) {
		w := &watcher{judge: newJudge(nil), report: func(r Report) {
			for _, s := range r.Samples {
				for _, n := range []float64{s.Utilization, s.MemoryMiB, s.MemoryTotalMiB, s.Celsius, s.Watts, s.ClockMHz} {
					if n < 0 || math.IsInf(n, 0) {
						t.Errorf("%+v", s)
					}
				}
				if s.Device() == "" || s.Uncorrected < -1 {
					t.Errorf("%+v", s)
				}
			}
		}}
		(&lines{line: func(l string) { w.said(w.stream.line(l)) }}).Write([]byte(text))
		w.said(w.stream.flush())
	})
}

func FuzzKernel(f *testing.F) {
	for _, name := range []string{"dmesg.txt", "dmesg-amd.txt"} {
		for line := range strings.Lines(recorded(f, name)) {
			f.Add(line)
		}
	}
	f.Fuzz(func(t *testing.T, line string) {
		j := newJudge(nil)
		j.samples([]Sample{newSample(0)})
		if fault := j.kernel(time.Unix(0, 0), line); fault != nil && (fault.Text == "" || fault.Xid < 0) {
			t.Errorf("%q: %+v", line, fault)
		}
		kernelTime(line)
	})
}
