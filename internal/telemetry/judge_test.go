package telemetry

import (
	"fmt"
	"testing"
	"time"
)

// eight returns a sample of eight devices but those.
func eight(without ...int) (all []Sample) {
	for i := range 8 {
		s := newSample(i)
		s.PCI, s.Utilization, s.Uncorrected = fmt.Sprintf("0000:0%d:00.0", i), 50, 0
		gone := false
		for _, w := range without {
			gone = gone || w == i
		}
		if !gone {
			all = append(all, s)
		}
	}
	return all
}

// Rules about a second fault hold for one device, and not for several lines about one fault.
func TestSecondFaults(t *testing.T) {
	line := func(device, xid int, rest string) string {
		return fmt.Sprintf("[1.0] NVRM: Xid (PCI:0000:0%d:00): %d, pid=1, name=x, %s", device, xid, rest)
	}
	type step struct {
		after time.Duration
		line  string
		want  string // the severity, or "" for no report
	}
	for name, steps := range map[string][]step{
		"illegal access": {
			{0, line(1, 13, "a"), "note"}, {time.Second, line(1, 13, "b"), ""}, {20 * time.Second, line(1, 13, "c"), ""},
			{time.Hour, line(2, 13, "d"), "note"}, {24 * time.Hour, line(1, 13, "e"), "replace"}, {time.Second, line(1, 13, "f"), ""},
		},
		"contained":             {{0, line(1, 94, ""), "restart"}, {time.Hour, line(1, 94, ""), "replace"}},
		"after another error":   {{0, line(1, 45, ""), "note"}, {time.Hour, line(1, 45, ""), "note"}},
		"NVLink":                {{0, line(1, 145, "Nonfatal"), "note"}, {5 * time.Minute, line(1, 145, "Nonfatal"), "replace"}},
		"NVLink, seldom":        {{0, line(1, 145, "Nonfatal"), "note"}, {11 * time.Minute, line(1, 145, "Nonfatal"), "note"}, {9 * time.Minute, line(1, 145, "Nonfatal"), "replace"}},
		"NVLink, fatal":         {{0, line(1, 145, "Nonfatal"), "note"}, {time.Second, line(1, 145, "Fatal"), "replace"}, {time.Second, line(1, 145, "Fatal"), ""}},
		"unknown":               {{0, line(1, 999, ""), "note"}, {time.Hour, line(1, 999, ""), "note"}},
		"a device of others":    {{0, "[1.0] NVRM: Xid (PCI:0000:99:00): 79, x", ""}},
		"without its address":   {{0, "[1.0] NVRM: The NVIDIA GPU has fallen off the bus", "replace"}},
		"not of an accelerator": {{0, "[1.0] usb 1-1: new device", ""}},
	} {
		j, now := newJudge(nil), time.Unix(1e9, 0)
		j.samples(eight())
		for i, s := range steps {
			now = now.Add(s.after)
			got := ""
			if f := j.kernel(now, s.line); f != nil {
				got = f.Severity.String()
			}
			if got != s.want {
				t.Errorf("%s, step %d: %q, want %q", name, i, got, s.want)
			}
		}
	}
}

// A device that lacks in two samples is gone, once, and one that comes back can go again.
func TestDevicesThatVanish(t *testing.T) {
	j := newJudge(nil)
	for i, step := range []struct {
		without []int
		want    int
	}{{nil, 0}, {[]int{3}, 0}, {nil, 0}, {[]int{3}, 0}, {[]int{3, 5}, 1}, {[]int{3, 5}, 1}, {[]int{3, 5}, 0}, {nil, 0}, {[]int{3}, 0}, {[]int{3}, 1}} {
		_, faults := j.samples(eight(step.without...))
		if len(faults) != step.want {
			t.Errorf("step %d: %v", i, faults)
		}
		for _, f := range faults {
			if !f.Gone || f.Severity != Replace || f.Device != "0000:03:00.0" && f.Device != "0000:05:00.0" {
				t.Errorf("step %d: %+v", i, f)
			}
		}
	}
}

// Only devices that the node's programs may use can vanish.
func TestDevicesOfOthersVanish(t *testing.T) {
	j := newJudge([]string{"0", "1"})
	for range 3 {
		if counted, faults := j.samples(eight(5)); len(faults) > 0 || len(counted) != 2 {
			t.Errorf("%v, %v", counted, faults)
		}
	}
}

func TestMemoryErrorsThatGrow(t *testing.T) {
	j := newJudge(nil)
	for i, step := range []struct {
		errors int64
		want   string
	}{{7, ""}, {7, ""}, {-1, ""}, {7, ""}, {9, "restart"}, {9, ""}, {10, "replace"}, {0, ""}} {
		all := eight()
		all[2].Uncorrected = step.errors
		_, faults := j.samples(all)
		got := ""
		if len(faults) > 0 {
			got = faults[0].Severity.String()
		}
		if got != step.want {
			t.Errorf("step %d: %v", i, faults)
		}
	}
}

func TestRemapIsReportedOnce(t *testing.T) {
	j := newJudge(nil)
	j.remap(remap{"0000:07:00.0", false, true})
	if _, faults := j.samples(eight()); len(faults) != 1 || faults[0].Device != "0000:07:00.0" {
		t.Errorf("told before the first sample: %v", faults)
	}
	for i, step := range []struct {
		remap
		want string
	}{
		{remap{pci: "0000:01:00.0"}, ""}, {remap{"0000:01:00.0", true, false}, "due"}, {remap{"0000:01:00.0", true, false}, ""},
		{remap{"0000:01:00.0", true, true}, "replace"}, {remap{"0000:99:00.0", true, true}, ""},
	} {
		got := ""
		if f := j.remap(step.remap); f != nil {
			got = f.Severity.String()
		}
		if got != step.want {
			t.Errorf("step %d: %q", i, got)
		}
	}
}

// A device that nvidia-smi cannot reach is reported once, whether the line names it or not.
func TestLostDevices(t *testing.T) {
	j := newJudge(nil)
	j.samples(eight())
	if f := j.lost(3, "", "3, [GPU is lost]"); f == nil || f.Device != "0000:03:00.0" || !f.Gone {
		t.Errorf("%+v", f)
	}
	for range 3 {
		if f := j.lost(-1, "0000:03:00.0", "GPU is lost"); f != nil {
			t.Errorf("%+v", f)
		}
		if _, faults := j.samples(eight(3)); len(faults) > 0 {
			t.Errorf("%v", faults)
		}
	}
	if f := j.lost(-1, "0000:99:00.0", "GPU is lost"); f != nil {
		t.Errorf("of others: %+v", f)
	}
}
