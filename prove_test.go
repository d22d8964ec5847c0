package gputrain

import (
	"strings"
	"testing"

	"github.com/gputrain/gputrain/accelerators"
)

// What nodes say of their devices, and how many of those are what is wanted.
func TestCountDevices(t *testing.T) {
	for _, tt := range []struct {
		want  accelerators.Accelerator
		lines string
		n     int
	}{
		{accelerators.A100(accelerators.Count(2), accelerators.Memory(80)), "NVIDIA A100-SXM4-80GB, 81920; NVIDIA A100-SXM4-80GB, 81920", 2},
		{accelerators.A100(accelerators.Memory(80)), "NVIDIA A100-SXM4-40GB, 40960", 0},
		{accelerators.H100(), "NVIDIA H100 PCIe, 81559; NVIDIA A100-SXM4-80GB, 81920", 1},
		{accelerators.H100(), "NVIDIA Something Nobody Knows, 1024", 1}, // it may be
		{accelerators.T4(), "Tesla T4, 15109", 1},
		{accelerators.T4(), "Tesla T4, [N/A]", 1},
		{accelerators.T4(), "00:1e.0 3D controller: NVIDIA Corporation TU104GL [Tesla T4] (rev a1)", 1},
		{accelerators.T4(), "00:1e.0 3D controller: NVIDIA Corporation GA102GL [A10G] (rev a1)", 0},
		{accelerators.T4(), "", 0},
	} {
		lines := strings.FieldsFunc(tt.lines, func(r rune) bool { return r == ';' })
		if n := countDevices(lines, tt.want); n != tt.n {
			t.Errorf("%q has %d of %v; want %d", tt.lines, n, tt.want, tt.n)
		}
	}
}
