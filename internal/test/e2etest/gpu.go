package e2etest

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/accelerators"
)

// NeedGPU returns the first GPU of this machine. It skips the test on a machine without one, or whose python3 has no PyTorch
// that can use it.
func NeedGPU(t testing.TB) accelerators.Accelerator {
	t.Helper()
	out, err := exec.Command("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits").Output()
	if err != nil {
		t.Skip("this machine has no NVIDIA GPU: nvidia-smi does not run")
	}
	if out, err := exec.Command("python3", "-c", "import torch; torch.zeros(1).cuda()").CombinedOutput(); err != nil {
		t.Skipf("python3 has no PyTorch that can use the GPU: %s", out)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	name, total, _ := strings.Cut(line, ", ")
	mib, err := strconv.ParseFloat(total, 64)
	if err != nil {
		t.Fatalf("nvidia-smi says %q", line)
	}
	gpu, err := accelerators.Reported(name, mib)
	if err != nil {
		t.Fatal(err)
	}
	gpu.Count = 1
	return gpu
}
