//go:build unix

package hosts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// TestLogins uses every feature of a pool on hosts whose logins print, are strict, or have another shell: all is as with a quiet
// sh. The devices are found, and the host is left as it was.
func TestLogins(t *testing.T) {
	logins := opensshtest.Logins
	if testing.Short() {
		logins = []opensshtest.Login{logins[1], logins[5]} // the strict bash, and tcsh
	}
	for _, l := range logins {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			host := e2etest.NewHostOf(t, l, "PATH="+e2etest.FakeGPUs(t, 2)+":"+os.Getenv("PATH"))
			pool := e2etest.OpenHosts(t, gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2)), Image: gputrain.Image{
				Setup: []string{"echo ready > setup"}, Env: map[string]string{"ODD": "a!b\\c'd\n\u00e9"},
			}}, nil, host)
			if got, err := e2etest.Norm.Gather(pool, e2etest.Point{X: 1, Y: 0}, e2etest.Point{X: 2, Y: 0}); err != nil || fmt.Sprint(got) != "[1 4]" {
				t.Errorf("functions: %v, %v", got, err)
			}

			task := gputrain.Script(`cat setup; printf '%s\n' "$ODD" "$HOME"; echo $CUDA_VISIBLE_DEVICES >&2; echo one >out.txt
echo saved >"$GPUTRAIN_CHECKPOINTS/step-1"; sleep 1; echo two >>out.txt`)
			task.Accelerators, task.Name, task.Outputs, task.SyncEvery = 2, "odd names ' !", []string{"out.txt"}, time.Second
			task.Checkpoints = gputrain.Checkpoints{To: t.TempDir(), Every: time.Second}
			r, err := pool.Run(task)
			if want := "ready\na!b\\c'd\n\u00e9\n" + host.Home + "\n"; err != nil || string(r.Stdout) != want || string(r.Stderr) != "0,1\n" {
				t.Errorf("a command: %v; %q, %q", err, r.Stdout, r.Stderr)
			} else if text := e2etest.ReadText(t, filepath.Join(r.OutputDir, "out.txt")); text != "one\ntwo\n" {
				t.Errorf("its outputs: %q", text)
			}
			if saved, _ := filepath.Glob(filepath.Join(task.Checkpoints.To, "*", "step-1")); len(saved) != 1 {
				t.Errorf("checkpoints: %q", saved)
			}

			up, down := t.TempDir(), t.TempDir()
			odd := "a!b\\c'd \u00e9"
			e2etest.Write(t, filepath.Join(up, odd), []byte(strings.Repeat("data", 1<<14)))
			if err := pool.Upload(up, "up to "+odd); err != nil {
				t.Errorf("upload: %v", err)
			}
			if err := pool.Download("up to "+odd+"/"+odd, down); err != nil {
				t.Errorf("download: %v", err)
			} else if got := e2etest.ReadText(t, filepath.Join(down, "0", odd)); got != strings.Repeat("data", 1<<14) {
				t.Errorf("downloaded %d bytes", len(got))
			}

			trained, err := pool.Train(gputrain.Training{Task: gputrain.Script(`echo "$RANK of $WORLD_SIZE"`), ProcessesPerNode: 2})
			if err != nil || len(trained.Ranks) == 0 || !strings.Contains(string(trained.Ranks[0].Stdout), "0 of 2") {
				t.Errorf("a training: %v, %+v", err, trained)
			}
			if err := pool.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}
