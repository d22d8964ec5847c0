package gputrain

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestParseNvidia(t *testing.T) {
	for _, tt := range []struct {
		list string
		want []string
	}{
		{"", nil},
		{"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", nil},
		{"No devices found.\n", nil},
		{"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5a1f1d3c-0b1e-9d2a-6f5c-1a2b3c4d5e6f)\n", []string{"0"}},
		{"GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-aa)\r\nGPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-bb)\r\n", []string{"0", "1"}},
		{"GPU 0: NVIDIA A100 (UUID: GPU-aa)\n  MIG 3g.20gb     Device  0: (UUID: MIG-11)\n  MIG 3g.20gb     Device  1: (UUID: MIG-22)\nGPU 1: NVIDIA A100 (UUID: GPU-bb)\n",
			[]string{"MIG-11", "MIG-22", "1"}},
		{"  MIG 3g.20gb     Device  0: (UUID: MIG-11)\n", nil},
	} {
		if got := parseNvidia(strings.Split(tt.list, "\n")); !slices.Equal(got, tt.want) {
			t.Errorf("%q has %q, want %q", tt.list, got, tt.want)
		}
	}
}

// Every slot has devices; nobody has another's while there are enough.
func TestDevicesAreShared(t *testing.T) {
	for have := range 17 {
		d := devices{variable: cudaVisible}
		for i := range have {
			d.ids = append(d.ids, string(rune('a'+i)))
		}
		for slots := 1; slots < 20; slots++ {
			used := map[string]int{}
			for slot := range slots {
				share := d.share(slot, slots)
				if (share == nil) != (slots == 1 || have < 2) {
					t.Errorf("%d devices, slot %d of %d: %v", have, slot, slots, share)
				}
				if share == nil && !slices.Equal(d.visible(slot, slots), d.ids) {
					t.Errorf("slot %d of %d sees %v of %v", slot, slots, d.visible(slot, slots), d.ids)
				}
				for _, id := range share {
					used[id]++
				}
			}
			if slots == 1 || have < 2 {
				continue
			}
			if len(used) != have {
				t.Errorf("%d devices, %d slots: only %v are used", have, slots, used)
			}
			most := slices.Max(slices.Collect(maps.Values(used)))
			if slots <= have && most > 1 || most > (slots+have-1)/have {
				t.Errorf("%d devices, %d slots: shared as %v", have, slots, used)
			}
		}
	}
}
