package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
)

// A machine whose devices cannot be shared is refused before its bootstrap, with the reason.
func TestMachineThatCannotShare(t *testing.T) {
	h100 := []simnode.GPU{{Name: "NVIDIA H100 80GB HBM3", UUID: "GPU-0", MemoryMiB: 81559}}
	for name, tt := range map[string]struct {
		gpus []simnode.GPU
		env  map[string]string
		want string
	}{
		"no MPS":     {h100, nil, "it has no nvidia-cuda-mps-control, which Spec.GPUSharing needs"},
		"AMD":        {h100, map[string]string{"HIP_VISIBLE_DEVICES": "0"}, "its accelerators are not NVIDIA's"},
		"divided":    {h100, map[string]string{"CUDA_VISIBLE_DEVICES": "MIG-11,MIG-22"}, "its GPUs are divided (MIG)"},
		"no devices": {nil, nil, "it has no accelerator that Spec.GPUSharing could share"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				l := newLab(t, simnode.Config{CPUs: 4, GPUs: tt.gpus})
				l.settings.GPUSharing = 2
				l.settings.Image.Env = tt.env
				l.run()
				_, err := l.failed()
				if !errors.Is(err, driver.ErrNoOffers) || !strings.Contains(err.Error(), tt.want) || slices.Contains(l.calls, "bootstrapping") {
					t.Errorf("after %q: %v", l.calls, err)
				}
			})
		})
	}
}

// A node's devices are listed again after commands of the user's, which may have divided a GPU. A list that fails changes
// nothing.
func TestDevicesAreListedAgain(t *testing.T) {
	two := []simnode.GPU{{Name: "NVIDIA A100-SXM4-80GB", UUID: "GPU-0", MemoryMiB: 81920}, {Name: "NVIDIA A100-SXM4-80GB", UUID: "GPU-1", MemoryMiB: 81920}}
	for name, tt := range map[string]struct {
		setup  []string
		answer string
		want   []string
	}{
		"divided": {[]string{"nvidia-smi mig -cgi 9,9 -C"}, "GPU 0: NVIDIA A100 (UUID: GPU-0)\n  MIG 3g.40gb     Device  0: (UUID: MIG-11)\n  MIG 3g.40gb     Device  1: (UUID: MIG-22)\nGPU 1: NVIDIA A100 (UUID: GPU-1)\n",
			[]string{"MIG-11", "MIG-22", "1"}},
		"without setup": {nil, "GPU 0: NVIDIA A100 (UUID: GPU-0)\n", []string{"0", "1"}},
		"fails":         {[]string{"true"}, "", []string{"0", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				l := newLab(t, simnode.Config{CPUs: 4, GPUs: two, Exec: func(context.Context, simnode.Command) int { return 0 }})
				l.settings.Wants = wants{Accelerator: accelerators.A100(accelerators.Count(2))}
				l.settings.Image.Setup = tt.setup
				if tt.answer != "" {
					l.answers["nvidia-smi -L"] = tt.answer
				}
				l.ready()
				if got := l.node.Devices().Visible(nil); !slices.Equal(got, tt.want) {
					t.Errorf("%q", got)
				}
				if count, _ := l.node.Devices().Units(); count != len(tt.want) {
					t.Errorf("%d units", count)
				}
			})
		})
	}
}

// A device that needs a reset is told, and no task sees it.
func TestUnwellDevicesAreLeftOut(t *testing.T) {
	two := []simnode.GPU{{Name: "NVIDIA A100-SXM4-80GB", UUID: "GPU-0", MemoryMiB: 81920}, {Name: "NVIDIA A100-SXM4-80GB", UUID: "GPU-1", MemoryMiB: 81920}}
	for image, want := range map[string][]string{"": {"GPU-1"}, "0,1": {"0", "1"}} { // the image's own choice stands
		bubble.Test(t, func(t *testing.T) {
			l := newLab(t, simnode.Config{CPUs: 4, GPUs: two})
			l.settings.Wants = wants{Accelerator: accelerators.A100()}
			l.settings.Image.Env = map[string]string{cudaVisible: image}
			l.answers[listNvidia] = "NVIDIA A100-SXM4-80GB, [GPU requires reset]\nNVIDIA A100-SXM4-80GB, 81920\n"
			l.ready()
			if got := l.node.Devices().Visible(nil); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			if told := "accelerator: nvidia-smi says: NVIDIA A100-SXM4-80GB, [GPU requires reset]"; !slices.Contains(l.calls, told) {
				t.Errorf("%q is not told: %q", told, l.calls)
			}
		})
	}
	base := bootstrap.Base{Env: map[string]string{"A": "1"}}
	if got := restricted(base, []string{"GPU-0", "GPU-1"}); got.Env[cudaVisible] != "GPU-0,GPU-1" || got.Env["A"] != "1" || len(base.Env) != 1 {
		t.Errorf("%v of %v", got, base)
	}
	if got := restricted(bootstrap.Base{Env: map[string]string{cudaVisible: "3"}}, []string{"GPU-0"}); got.Env[cudaVisible] != "3" {
		t.Errorf("%v", got)
	}
}

// Only the first daemon that runs still is followed, if devices are shared: any other is ended.
func TestDaemonsThatAreFound(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLab(t, simnode.Config{CPUs: 4})
		l.ready()
		found := []supervisor.Found{{ID: "mps-g1", Over: true}, {ID: "t1-a1-s0"}, {ID: "mps-g2"}, {ID: "mps-g3"}}
		for sharing, want := range map[int]string{0: "", 2: "mps-g2"} {
			l.settings.GPUSharing = sharing
			if others, running := l.node.sharing.split(found); running != want || len(others) != 1 || others[0].ID != "t1-a1-s0" {
				t.Errorf("sharing %d: %v, %q", sharing, others, running)
			}
		}
	})
}
