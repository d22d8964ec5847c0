//go:build unix

package slurm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/slurm"
)

// A program on the login node runs Slurm's commands itself, and reaches nodes over TCP. Here the commands are scripts that run
// the real ones in the login node's container, as root, which this test is.
func TestLocal(t *testing.T) {
	b := common(t)
	if os.Getuid() != 0 {
		t.Skip("the jobs' user must be that of the test: run it as root")
	}
	bin := t.TempDir()
	for _, name := range []string{"sinfo", "scontrol", "sbatch", "squeue", "scancel", "sacct"} {
		script := "#!/bin/sh\nexec docker exec -i -w /tmp -e LC_ALL -e SLURM_TIME_FORMAT " + b.name + "-ctl " + name + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	pool, _ := b.open(t, slurm.Config{Local: true}, gputrain.Spec{Nodes: 2})
	results, err := pool.Broadcast(bash(`echo "$SLURM_JOB_ID"`))
	if err != nil || len(results) != 2 || string(results[0].Stdout) == string(results[1].Stdout) {
		t.Errorf("%+v, %v", results, err)
	}
}
