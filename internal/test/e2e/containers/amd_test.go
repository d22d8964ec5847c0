package containers

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
)

// AMD's accelerators are counted from the report of the kernel's compute driver. The container has a fake driver with
// two processors, four GPUs, and a GPU of another container, which the kernel refuses to describe.
func TestAMDDevicesAreShared(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it starts many containers")
	}
	e2etest.NeedDocker(t)
	class := t.TempDir()
	for i, simds := range []int{0, 0, 304, 304, 304, 304} {
		e2etest.WriteText(t, filepath.Join(class, fmt.Sprintf("kfd/kfd/topology/nodes/%d/properties", i)),
			fmt.Sprintf("cpu_cores_count %d\nsimd_count %d\nmem_banks_count 1\nsimd_per_cu 4\n", max(0, 96-simds), simds))
	}
	e2etest.WriteText(t, filepath.Join(class, "kfd/kfd/topology/nodes/6/gpu_id"), "0\n")
	pool := e2etest.OpenContainers(t, container.Config{RunArgs: []string{
		"--device", "/dev/null:/dev/kfd", "--volume", class + ":/sys/class:ro",
	}}, gputrain.Spec{Concurrency: 2})

	var seen []string
	tasks := slices.Repeat([]gputrain.Task{gputrain.Script(`sleep 0.2; echo "$HIP_VISIBLE_DEVICES ${CUDA_VISIBLE_DEVICES-} ${CUDA_DEVICE_ORDER-}"`)}, 8)
	results, err := pool.Gather(tasks...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		seen = append(seen, string(r.Stdout))
	}
	slices.Sort(seen)
	if got := slices.Compact(seen); !slices.Equal(got, []string{"0,1  \n", "2,3  \n"}) {
		t.Errorf("the devices were %q", got)
	}
	info, err := e2etest.Where.Run(pool, struct{}{})
	if err != nil || !slices.Equal(info.Accelerators, []string{"0", "1"}) {
		t.Errorf("a function sees the accelerators %q, %v", info.Accelerators, err)
	}
}
