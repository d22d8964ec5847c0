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
		// A device is lost: the others have their UUIDs.
		{"GPU 0: NVIDIA L4 (UUID: GPU-aa)\nUnable to determine the device handle for gpu 0000:3B:00.0: Unknown Error\nGPU 2: NVIDIA L4 (UUID: GPU-cc)\n", []string{"GPU-aa", "GPU-cc"}},
		{"GPU 0: NVIDIA L4 (UUID: GPU-aa)\nGPU 2: NVIDIA L4 (UUID: GPU-cc)\n", []string{"GPU-aa", "GPU-cc"}},
	} {
		if got := parseNvidia(strings.Split(tt.list, "\n")); !slices.Equal(got, tt.want) {
			t.Errorf("%q has %q, want %q", tt.list, got, tt.want)
		}
	}
}

// The devices that are well are named by their UUIDs, if the list can be compared with that of nvidia-smi's query.
func TestWellGPUs(t *testing.T) {
	list := []string{"GPU 0: NVIDIA L4 (UUID: GPU-aa)", "GPU 1: NVIDIA L4 (UUID: GPU-bb)", "GPU 2: NVIDIA L4 (UUID: GPU-cc)"}
	for _, tt := range []struct {
		list []string
		sick []int
		want []string
	}{
		{list, []int{1}, []string{"GPU-aa", "GPU-cc"}},
		{list, []int{0, 2}, []string{"GPU-bb"}},
		{list, []int{3}, nil},
		{append([]string{"WARNING: infoROM is corrupted at gpu 0000:B3:00.0"}, list...), []int{2}, []string{"GPU-aa", "GPU-bb"}},
		{append(list[:1:1], "  MIG 3g.20gb     Device  0: (UUID: MIG-11)"), []int{1}, nil},
		{nil, []int{0}, nil},
	} {
		if got := wellGPUs(tt.list, tt.sick); !slices.Equal(got, tt.want) {
			t.Errorf("without %v of %q: %q, want %q", tt.sick, tt.list, got, tt.want)
		}
	}
}

// A program sees the devices of its units, each once, and of shared ones as large a part of the threads as it has of the
// device of which it has least.
func TestDevicesOfUnits(t *testing.T) {
	four := Devices{variable: cudaVisible, ids: []string{"0", "1", "2", "MIG-x"}}
	shared := Devices{variable: cudaVisible, ids: []string{"4", "5"}, shares: 3}
	for _, tt := range []struct {
		d       Devices
		units   []int
		env     map[string]string
		visible []string
	}{
		{four, nil, nil, four.ids},
		{four, []int{1, 3}, map[string]string{cudaVisible: "1,MIG-x", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, []string{"1", "MIG-x"}},
		{Devices{variable: hipVisible, ids: []string{"0", "1"}}, []int{1}, map[string]string{hipVisible: "1"}, []string{"1"}},
		{shared, nil, nil, shared.ids},
		{shared, []int{0}, map[string]string{cudaVisible: "4", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "33"}, []string{"4"}},
		{shared, []int{3, 4, 5}, map[string]string{cudaVisible: "5", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100"}, []string{"5"}},
		{shared, []int{1, 2, 3}, map[string]string{cudaVisible: "4,5", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "33"}, []string{"4", "5"}},
	} {
		if env, visible := tt.d.Env(tt.units), tt.d.Visible(tt.units); !maps.Equal(env, tt.env) || !slices.Equal(visible, tt.visible) {
			t.Errorf("%v of %+v: %v, %v", tt.units, tt.d, env, visible)
		}
	}
	for _, tt := range []struct {
		d            Devices
		count, group int
	}{{Devices{}, 0, 1}, {four, 4, 1}, {shared, 6, 3}} {
		if count, group := tt.d.Units(); count != tt.count || group != tt.group {
			t.Errorf("%+v has %d units, %d of a device", tt.d, count, group)
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
		{map[string]string{cudaVisible: "2,3", hipVisible: "0"}, supervisor.Facts{NVIDIA: nvidia}, Devices{variable: cudaVisible, ids: []string{"2", "3"}}},
		{map[string]string{hipVisible: "1"}, supervisor.Facts{NVIDIA: nvidia}, Devices{variable: hipVisible, ids: []string{"1"}}},
		{nil, supervisor.Facts{NVIDIA: nvidia, Visible: []string{"2", "GPU-bb"}}, Devices{variable: cudaVisible, ids: []string{"2", "GPU-bb"}}},
		{nil, supervisor.Facts{NVIDIA: nvidia, Visible: []string{"-1"}}, Devices{variable: cudaVisible, ids: []string{"0"}}},
		{nil, supervisor.Facts{Visible: []string{"2"}}, Devices{}},
		{map[string]string{cudaVisible: "3"}, supervisor.Facts{NVIDIA: nvidia, Visible: []string{"2"}}, Devices{variable: cudaVisible, ids: []string{"3"}}},
		{nil, supervisor.Facts{NVIDIA: nvidia, AMD: 4}, Devices{variable: cudaVisible, ids: []string{"0"}}},
		{nil, supervisor.Facts{NVIDIA: []string{"No devices found."}, AMD: 2}, Devices{variable: hipVisible, ids: []string{"0", "1"}}},
		{nil, supervisor.Facts{AMD: -1}, Devices{}},
		{nil, supervisor.Facts{AMD: maxDevices + 1}, Devices{}},
	} {
		if got := devicesOf(tt.env, tt.facts); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%v, %+v: %+v, want %+v", tt.env, tt.facts, got, tt.want)
		}
	}
}
