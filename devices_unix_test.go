//go:build unix

package gputrain_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/local"
)

// fakeSMI puts an nvidia-smi that lists so many GPUs into the PATH of local nodes.
func fakeSMI(t *testing.T, gpus int) {
	t.Helper()
	text := "case $1 in -L)\n"
	for i := range gpus {
		text += fmt.Sprintf("echo 'GPU %d: NVIDIA A100-SXM4-80GB (UUID: GPU-%d)'\n", i, i)
	}
	text += ";; *)\n" + strings.Repeat("echo 'NVIDIA A100-SXM4-80GB, 81920'\n", gpus) + ";; esac\n"
	smi(t, text)
}

// smi puts an nvidia-smi with this shell text into the PATH of local nodes.
func smi(t *testing.T, text string) {
	t.Helper()
	program(t, "nvidia-smi", text)
}

// listed is shell text for smi: to the local provider, which decides by that what it offers, this machine has two GPUs. What the
// text after it prints is for those who look on the node.
func listed(name string, mib int) string {
	row := fmt.Sprintf("GPU-%%d, %s, %d, Disabled", name, mib)
	return fmt.Sprintf("case $1 in --query-gpu=index,*) echo '0, %s'; echo '1, %s'; exit;; esac\n", fmt.Sprintf(row, 0), fmt.Sprintf(row, 1))
}

// program puts a shell script into the PATH of local nodes.
func program(t *testing.T, name, text string) {
	t.Helper()
	dir := t.TempDir()
	text = "#!/bin/sh\n" + text
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// A node is rejected if its driver reports other accelerators than the spec asks for, or none.
func TestAcceleratorsAreProved(t *testing.T) {
	for name, tt := range map[string]struct{ smi, want string }{
		"right":  {"echo 'NVIDIA A100-SXM4-80GB, 81920'; echo 'NVIDIA A100-SXM4-80GB, 81920'", ""},
		"few":    {"echo 'NVIDIA A100-SXM4-80GB, 81920'", "which the spec asks for, it has 1"},
		"small":  {"echo 'NVIDIA A100-SXM4-40GB, 40960'; echo 'NVIDIA A100-SXM4-40GB, 40960'", "it has 0"},
		"none":   {"", "it has no accelerator"},
		"broken": {"echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'; exit 9", "its driver is not well: remote command exited with status 9 NVIDIA-SMI has failed"},
	} {
		t.Run(name, func(t *testing.T) {
			smi(t, listed("NVIDIA A100-SXM4-80GB", 81920)+tt.smi)
			a100 := accelerators.A100(accelerators.Count(2), accelerators.Memory(80))
			p, err := gputrain.Open(t.Context(), local.Config{Dir: t.TempDir()}, gputrain.Spec{Accelerator: a100, MaxReplacements: -1})
			switch {
			case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v", err)
			}
			if err == nil {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A node whose driver lists its devices, but cannot use them, is rejected. A test in internal/node
// covers a driver that is not ready yet, for which the node waits.
func TestCUDAIsProved(t *testing.T) {
	for name, tt := range map[string]struct{ cuInit, want string }{
		"works":         {"echo 0", ""},
		"no CUDA":       {"", ""},
		"broken python": {"echo oops >&2; exit 1", ""},
		"unusable":      {"echo 999", "CUDA cannot use them: cuInit says 999"},
	} {
		t.Run(name, func(t *testing.T) {
			smi(t, listed("NVIDIA H100 80GB HBM3", 81559)+"echo 'NVIDIA H100 80GB HBM3, 81559'")
			python, err := exec.LookPath("python3")
			if err != nil {
				python = "false"
			}
			program(t, "python3", `case "$2" in *cuInit*) `+tt.cuInit+`;; *) exec `+python+` "$@";; esac`)
			h100 := accelerators.H100()
			p, err := gputrain.Open(t.Context(), local.Config{Dir: t.TempDir()}, gputrain.Spec{Accelerator: h100, MaxReplacements: -1})
			switch {
			case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v", err)
			}
			if err == nil {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Tasks that run at the same time on a node have devices of their own, which the next tasks get.
func TestRunningTasksHaveTheirOwnDevices(t *testing.T) {
	fakeSMI(t, 4)
	pool := e2etest.Open(t, gputrain.Spec{Concurrency: 2})
	held := t.TempDir()
	var tasks []gputrain.Task
	for range 12 {
		tasks = append(tasks, gputrain.Script(`cd '`+held+`'; for d in $(echo "$CUDA_VISIBLE_DEVICES" | tr , ' '); do mkdir "$d" || exit 7; done
sleep 0.1; for d in $(echo "$CUDA_VISIBLE_DEVICES" | tr , ' '); do rmdir "$d"; done; echo "$CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER $HIP_VISIBLE_DEVICES"`))
	}
	results, err := pool.Gather(tasks...)
	if err != nil {
		t.Fatalf("two tasks had the same device: %v", err)
	}
	var seen []string
	for _, r := range results {
		seen = append(seen, string(r.Stdout))
	}
	slices.Sort(seen)
	if got := slices.Compact(seen); !slices.Equal(got, []string{"0,1 PCI_BUS_ID \n", "2,3 PCI_BUS_ID \n"}) {
		t.Errorf("the devices were %q", got)
	}
}

func TestDevicesAreLeftAlone(t *testing.T) {
	fakeSMI(t, 4)
	const show = `echo "${CUDA_VISIBLE_DEVICES-none}"`
	mine := gputrain.Script(show)
	mine.Env = map[string]string{"CUDA_VISIBLE_DEVICES": "3"}
	for _, tt := range []struct {
		what string
		spec gputrain.Spec
		task gputrain.Task
		want string
	}{
		{"one task at a time has the node", gputrain.Spec{}, gputrain.Script(show), "none"},
		{"the task decides", gputrain.Spec{Concurrency: 2}, mine, "3"},
		{"the image decides what there is", gputrain.Spec{Concurrency: 2, Image: gputrain.Image{Env: map[string]string{"CUDA_VISIBLE_DEVICES": "1,2"}}}, gputrain.Script(show), "1"},
	} {
		pool := e2etest.Open(t, tt.spec)
		r, err := pool.Run(tt.task)
		if got := strings.TrimSpace(string(r.Stdout)); got != tt.want || err != nil {
			t.Errorf("%s: CUDA_VISIBLE_DEVICES is %s, want %s; %v", tt.what, got, tt.want, err)
		}
	}
}
