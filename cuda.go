package gputrain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/internal/ssh"
)

// askCUDA makes a context of CUDA, as every program has to, and prints what came of it: a
// code of CUDA's, 0 for success. Without python3, or without CUDA, it prints nothing.
//
// A driver that lists its devices may serve none. Of GPUs behind an NVSwitch it does not
// until the fabric is up, which some clouds' machines need minutes for, and others never
// come to.
const askCUDA = `! command -v python3 >/dev/null || python3 -c '
import ctypes
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    raise SystemExit
print(cuda.cuInit(0))'`

// cudaNotReady is CUDA_ERROR_SYSTEM_NOT_READY: "the system is not yet ready".
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html
const cudaNotReady = "802"

var (
	// cudaPatience is how long a node may not be ready that has come up.
	cudaPatience = 3 * time.Minute
	cudaPause    = 5 * time.Second
)

// proveCUDA looks whether programs can use the devices that nvidia-smi lists.
func (n *poolNode) proveCUDA(f *faults) error {
	for until := now().Add(cudaPatience); ; {
		code, err := n.cudaCode()
		switch {
		case err != nil:
			return err
		case code == "" || code == "0":
			return nil
		case code != cudaNotReady:
			f.add("its driver lists the accelerators, and CUDA cannot use them: cuInit says %.100s", code)
			return nil
		case now().After(until):
			f.add("its accelerators are not ready %v after it came up: cuInit says %s", cudaPatience, code)
			return nil
		case !launches.Pause(n.ctx, cudaPause):
			return context.Cause(n.ctx)
		}
	}
}

// cudaCode returns the code. A node that answers in words of its own is not held to them.
func (n *poolNode) cudaCode() (string, error) {
	ctx, cancel := context.WithTimeout(n.ctx, proveTimeout)
	defer cancel()
	out, _, err := n.questions.answer(ctx, n.client, askCUDA)
	_, failed := errors.AsType[*ssh.ExitError](err)
	switch {
	case err == nil:
		return strings.TrimSpace(out), nil
	case failed:
		return "", nil
	case ctx.Err() != nil && n.ctx.Err() == nil:
		return fmt.Sprintf("nothing within %v", proveTimeout), nil
	}
	return "", err
}
