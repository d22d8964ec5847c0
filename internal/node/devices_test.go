package node

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/supervisor"
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

// Every slot has devices, and no two slots share one while there are enough.
func TestDevicesAreShared(t *testing.T) {
	for have := range 17 {
		d := Devices{variable: cudaVisible}
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
				if share == nil && !slices.Equal(d.Visible(slot, slots), d.ids) {
					t.Errorf("slot %d of %d sees %v of %v", slot, slots, d.Visible(slot, slots), d.ids)
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

// The environment of the image takes precedence, then nvidia-smi's list, then AMD's count, which may be any number.
func TestDevicesOf(t *testing.T) {
	nvidia := []string{"GPU 0: NVIDIA A100 (UUID: GPU-aa)"}
	for _, tt := range []struct {
		env   map[string]string
		facts supervisor.Facts
		want  Devices
	}{
		{nil, supervisor.Facts{}, Devices{}},
		{map[string]string{cudaVisible: "2,3", hipVisible: "0"}, supervisor.Facts{NVIDIA: nvidia}, Devices{cudaVisible, []string{"2", "3"}}},
		{map[string]string{hipVisible: "1"}, supervisor.Facts{NVIDIA: nvidia}, Devices{hipVisible, []string{"1"}}},
		{nil, supervisor.Facts{NVIDIA: nvidia, Visible: []string{"2", "GPU-bb"}}, Devices{cudaVisible, []string{"2", "GPU-bb"}}},
		{nil, supervisor.Facts{NVIDIA: nvidia, Visible: []string{"-1"}}, Devices{cudaVisible, []string{"0"}}},
		{nil, supervisor.Facts{Visible: []string{"2"}}, Devices{}},
		{map[string]string{cudaVisible: "3"}, supervisor.Facts{NVIDIA: nvidia, Visible: []string{"2"}}, Devices{cudaVisible, []string{"3"}}},
		{nil, supervisor.Facts{NVIDIA: nvidia, AMD: 4}, Devices{cudaVisible, []string{"0"}}},
		{nil, supervisor.Facts{NVIDIA: []string{"No devices found."}, AMD: 2}, Devices{hipVisible, []string{"0", "1"}}},
		{nil, supervisor.Facts{AMD: -1}, Devices{}},
		{nil, supervisor.Facts{AMD: maxDevices + 1}, Devices{}},
	} {
		if got := devicesOf(tt.env, tt.facts); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%v, %+v: %+v, want %+v", tt.env, tt.facts, got, tt.want)
		}
	}
}
