package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/internal/ssh"
)

// initCUDA initializes CUDA, as every program has to, and prints CUDA's code, 0 for success.
// Without python3, or without CUDA, it prints nothing.
//
// A driver that lists its devices may not serve them. GPUs behind an NVSwitch are not served
// until the fabric is up, which takes minutes on some clouds' machines, and never succeeds on
// others.
const initCUDA = `! command -v python3 >/dev/null || python3 -c '
import ctypes
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    raise SystemExit
print(cuda.cuInit(0))'`

// cudaNotReady is CUDA_ERROR_SYSTEM_NOT_READY: "the system is not yet ready".
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html
const cudaNotReady = "802"

// A node whose accelerators are not ready cudaPatience after it has come up fails. CUDA is
// asked again every cudaPause.
const cudaPatience, cudaPause = 3 * time.Minute, 5 * time.Second

// cuda checks whether programs can use the devices that nvidia-smi lists.
func (v *verifier) cuda(ctx context.Context) error {
	for until := time.Now().Add(cudaPatience); ; {
		code, err := v.cudaCode(ctx)
		switch {
		case err != nil:
			return err
		case code == "" || code == "0":
			return nil
		case code != cudaNotReady:
			v.lacks("its driver lists the accelerators, and CUDA cannot use them: cuInit says %.100s", code)
			return nil
		case time.Now().After(until):
			v.lacks("its accelerators are not ready %v after it came up: cuInit says %s", cudaPatience, code)
			return nil
		case !retry.Sleep(ctx, cudaPause):
			return context.Cause(ctx)
		}
	}
}

// cudaCode returns CUDA's code, or "" if the command fails.
func (v *verifier) cudaCode(ctx context.Context) (string, error) {
	limited, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	out, _, err := v.ask(limited, initCUDA)
	_, failed := errors.AsType[*ssh.ExitError](err)
	switch {
	case err == nil:
		return strings.TrimSpace(out), nil
	case failed:
		return "", nil
	case limited.Err() != nil && ctx.Err() == nil:
		return fmt.Sprintf("nothing within %v", verifyTimeout), nil
	}
	return "", err
}
