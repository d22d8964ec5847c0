package containers

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
)

// withoutGPUs returns an engine that is Docker, but for the option --gpus, which needs GPUs.
func withoutGPUs(t *testing.T) string {
	docker, err := exec.LookPath("docker")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "docker")
	text := `#!/bin/sh
n=$#
while [ $n -gt 0 ]; do
	case $1 in
	--gpus) shift 2; n=$((n-2)) ;;
	--gpus=*) shift; n=$((n-1)) ;;
	*) set -- "$@" "$1"; shift; n=$((n-1)) ;;
	esac
done
exec ` + docker + ` "$@"
`
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// Tasks of different sizes never share a device of a container, and with GPUSharing as many as that do.
func TestAcceleratorsOfContainers(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it starts many containers")
	}
	e2etest.NeedDocker(t)
	bin := e2etest.FakeGPUs(t, 4)
	log := e2etest.FakeMPS(t, bin)
	shared := t.TempDir()
	engine := container.Config{Binary: withoutGPUs(t), GPUs: "all", RunArgs: []string{
		"--volume", bin + "/nvidia-smi:/usr/local/bin/nvidia-smi:ro", "--volume", bin + "/nvidia-cuda-mps-control:/usr/local/bin/nvidia-cuda-mps-control:ro",
		"--volume", filepath.Dir(log) + ":" + filepath.Dir(log),
	}}
	spec := gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(4)), Mounts: []gputrain.Mount{{Source: shared, Target: "/shared"}}}
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		spec := spec
		spec.Nodes, spec.Concurrency = 2, 2
		pool := e2etest.OpenContainers(t, engine, spec)
		var tasks []gputrain.Task
		for i := range 16 {
			task := gputrain.Script(e2etest.HoldsDevices("/shared", "", "sleep 0.1"))
			task.Accelerators = []int{1, 3, 2, 0, 4, 1, 0, 2}[i%8]
			tasks = append(tasks, task)
		}
		if _, err := pool.Gather(tasks...); err != nil {
			t.Error(err)
		}
		if info, err := e2etest.Where.With(gputrain.Task{Accelerators: 3}).Run(pool, struct{}{}); err != nil || len(info.Accelerators) != 3 || info.Slot != 2 {
			t.Errorf("%+v, %v", info, err)
		}
	})
	t.Run("shared", func(t *testing.T) {
		t.Parallel()
		spec := spec
		spec.GPUSharing = 2
		pool := e2etest.OpenContainers(t, engine, spec)
		var tasks []gputrain.Task
		for range 8 { // all at once
			task := gputrain.Script(`: >/shared/at-once.$GPUTRAIN_SLOT; until [ "$(ls /shared/at-once.* | wc -l)" -eq 8 ]; do sleep 0.05; done
test -e "$CUDA_MPS_PIPE_DIRECTORY/control" && [ "$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" = 50 ]`)
			task.Accelerators, task.Timeout = 1, time.Minute
			tasks = append(tasks, task)
		}
		if _, err := pool.Gather(tasks...); err != nil {
			t.Error(err)
		}
	})
}
