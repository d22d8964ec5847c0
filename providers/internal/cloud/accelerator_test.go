package cloud

import (
	"testing"

	"github.com/gputrain/gputrain/accelerators"
)

func TestAccelerator(t *testing.T) {
	for _, tt := range []struct {
		provider, name string
		count          int
		memory         float64
		asked          accelerators.Accelerator
		want           string
	}{
		{"lambda", "gpu_8x_h100_sxm5", 8, 80, accelerators.Accelerator{}, "H100-80GB-SXM:8"},
		{"lambda", "gpu_8x_h100_sxm5", 8, 80, accelerators.Exact("gpu_8x_h100_sxm5"), `"gpu_8x_h100_sxm5"-80GB:8`},
		{"lambda", "gpu_2x_x900", 2, 0, accelerators.Accelerator{}, `"gpu_2x_x900":2`},
		{"lambda", "cpu_4x_general", 0, 0, accelerators.Accelerator{}, "cpu"},
		{"vultr", "vcg-a16-2c-8g-2vram", 1, 16, accelerators.Accelerator{}, "A16-2GB:0.125"},
	} {
		if a := Accelerator(tt.provider, tt.name, tt.count, tt.memory, tt.asked); a.String() != tt.want {
			t.Errorf("%s of %s, asked for as %v, is %v, want %s", tt.name, tt.provider, tt.asked, a, tt.want)
		}
	}
}
