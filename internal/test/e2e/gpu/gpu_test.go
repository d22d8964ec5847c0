package gpu

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/unzip"
	"github.com/gputrain/gputrain/observe/report"
	"github.com/gputrain/gputrain/providers/local"
)

// TestDevice opens a pool with this machine's GPU. A task uses the GPU. A second pool is refused while the first one has it.
func TestDevice(t *testing.T) {
	gpu := e2etest.NeedGPU(t)
	provider := local.Config{Dir: t.TempDir()}
	spec := gputrain.Spec{Accelerator: gpu, Image: gputrain.Image{Include: []string{"testdata"}}}
	pool, err := gputrain.Open(t.Context(), provider, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	}()
	if got := pool.Nodes()[0].Accelerator; !got.Matches(gpu) || got.Count != 1 {
		t.Errorf("the node has %v, want %v", got, gpu)
	}
	result, err := pool.Run(program("device.py"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", result.Stdout)
	if !strings.Contains(string(result.Stdout), gpu.Name) || !strings.Contains(string(result.Stdout), "visible 0\n") {
		t.Errorf("the task has\n%s", result.Stdout)
	}
	spec.Accelerator = accelerators.K80()
	if _, err := gputrain.Open(t.Context(), provider, spec); !errors.Is(err, gputrain.ErrNoOffers) || !strings.Contains(err.Error(), gpu.Name) {
		t.Errorf("got %v, want ErrNoOffers that names %s", err, gpu.Name)
	}
	if out, _ := exec.Command("nvidia-smi", "-L").Output(); strings.Count(string(out), "\n") != 1 {
		return
	}
	spec.Accelerator = gpu
	if _, err := gputrain.Open(t.Context(), provider, spec); !errors.Is(err, gputrain.ErrNoOffers) || !strings.Contains(err.Error(), "0 of its 1 GPUs free") {
		t.Errorf("got %v, want ErrNoOffers, as the only GPU is taken", err)
	}
}

// Samples show what a program does to the GPU, in events and in the report.
func TestSamples(t *testing.T) {
	w := open(t, gputrain.Spec{})
	result, err := w.Run(program("work.py", "25"))
	if err != nil {
		t.Fatalf("%v\n%s%s", err, result.Stdout, result.Stderr)
	}
	samples := w.find(func(e gputrain.Event) bool { return e.Kind == gputrain.EventUsage && e.State == "sample" })
	working := false
	total := w.Nodes()[0].Accelerator.MemoryGiB
	for _, e := range samples {
		t.Logf("%+v", e.Usage)
		for _, a := range e.Usage.Accelerators {
			working = working || a.Utilization >= 50 && a.MemoryGiB >= 4 && a.Watts >= 100
			if !regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0$`).MatchString(a.Device) || a.Celsius <= 0 || a.ClockMHz <= 0 || a.MemoryTotalGiB < 0.9*total {
				t.Errorf("sample %+v of a GPU with %v GiB", a, total)
			}
		}
	}
	if !working {
		t.Error("no sample shows the work")
	}
	if len(w.find(func(e gputrain.Event) bool { return e.Kind == gputrain.EventUsage && e.State == "fault" })) > 0 {
		t.Error("a fault was reported")
	}
	run := w.recorder.Run()
	most := 0.0
	for _, l := range run.Nodes[0].Load {
		most = max(most, l.Accelerators)
	}
	if most < 50 {
		t.Errorf("the recorded load is %v percent at most", most)
	}
	file := filepath.Join(t.TempDir(), "run.html")
	if err := report.WriteHTML(file, run); err != nil {
		t.Fatal(err)
	}
	if keep := os.Getenv("OUT"); keep != "" {
		if err := report.WriteHTML(filepath.Join(keep, "run.html"), run); err != nil {
			t.Fatal(err)
		}
	}
}

// Two tasks share the GPU by MPS: they run at the same time, each with half of its processors, and nothing runs afterwards.
func TestSharing(t *testing.T) {
	e2etest.NeedGPU(t)
	if _, err := exec.LookPath("nvidia-cuda-mps-control"); err != nil {
		t.Skip("this machine has no nvidia-cuda-mps-control, by which tasks share a GPU")
	}
	meeting := t.TempDir()
	pool, err := gputrain.Open(t.Context(), local.Config{Dir: e2etest.ShortDir(t)}, gputrain.Spec{Accelerator: e2etest.NeedGPU(t), GPUSharing: 2, Image: gputrain.Image{Include: []string{"testdata"}}})
	if err != nil {
		t.Fatal(err)
	}
	results, err := pool.Gather(program("shared.py", meeting, "a", "b"), program("shared.py", meeting, "b", "a"))
	for _, r := range results {
		t.Logf("%s%s", r.Stdout, r.Stderr)
		if err == nil && !strings.Contains(string(r.Stdout), "half True") {
			t.Error("a task has more than half of the GPU's processors")
		}
	}
	if err := errors.Join(err, pool.Close()); err != nil {
		t.Fatal(err)
	}
	if exec.Command("pgrep", "-f", "nvidia-cuda-mps-control|nvidia-cuda-mps-server").Run() == nil {
		t.Error("MPS runs after the pool has ended")
	}
}

// A program that fills the GPU's memory fails, and the bundle says why.
func TestOutOfMemory(t *testing.T) {
	w := open(t, gputrain.Spec{})
	_, err := w.Run(program("fill.py"))
	t.Log(failure(t, err))
	file := filepath.Join(t.TempDir(), "bundle.zip")
	if err := report.WriteBundle(t.Context(), file, w.recorder, w.Compute); err != nil {
		t.Fatal(err)
	}
	texts := unzip.Texts(t, file)
	t.Log(texts["CAUSE.txt"])
	for _, want := range []string{"fill.py", "CUDA out of memory", "GPU's memory is full"} {
		if !strings.Contains(texts["CAUSE.txt"], want) {
			t.Errorf("CAUSE.txt does not have %q", want)
		}
	}
	gpu, devices := w.Nodes()[0].Accelerator.Name, ""
	for name, text := range texts {
		if strings.HasPrefix(name, "nodes/") {
			devices += name + ":\n" + text + "\n"
		}
	}
	if !strings.Contains(devices, gpu) {
		t.Errorf("the bundle does not say what devices the node has:\n%s", devices)
	}
	if keep := os.Getenv("OUT"); keep != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		e2etest.Write(t, filepath.Join(keep, "bundle.zip"), b)
	}
}

// A program that accesses memory that it does not have fails with an Xid of the driver, which is not the device's fault: the
// next task runs on the same node.
func TestIllegalAccess(t *testing.T) {
	w := open(t, gputrain.Spec{})
	node := w.Nodes()[0].ID
	_, err := w.Run(program("illegal.py"))
	t.Log(failure(t, err))
	var readable bool
	e2etest.Until(t, "the first sample", func() bool {
		samples := w.find(func(e gputrain.Event) bool {
			return e.Kind == gputrain.EventUsage && e.State == "sample" && e.Usage.Accelerators != nil
		})
		for _, e := range samples {
			readable = readable || e.Usage.KernelLog
		}
		return len(samples) > 0
	})
	if readable {
		e2etest.Until(t, "the fault", func() bool {
			return len(w.find(func(e gputrain.Event) bool { return e.Kind == gputrain.EventUsage && e.State == "fault" })) > 0
		})
	}
	for _, e := range w.find(func(e gputrain.Event) bool { return e.Kind == gputrain.EventUsage && e.State == "fault" }) {
		t.Log(e.Err)
		if !regexp.MustCompile(`Xid (13|31)\b`).MatchString(e.Err.Error()) {
			t.Errorf("the fault is %v, want Xid 13 or 31", e.Err)
		}
	}
	t.Log("the kernel's log can be read:", readable)
	result, err := w.Run(program("device.py"))
	if err != nil || result.Node.ID != node {
		t.Errorf("the next task: %v on %s, want no error on %s", err, result.Node.ID, node)
	}
}
