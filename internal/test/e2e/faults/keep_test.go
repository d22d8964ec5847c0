//go:build unix

package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/ssh"
)

// outputsOfALostNode loses a node whose link is cut again and again before. What its task has brought meanwhile is in the
// result.
func outputsOfALostNode(t *testing.T) {
	h, results, dir := e2etest.NewHost(t), t.TempDir(), t.TempDir()
	pool, err := gputrain.Open(t.Context(), ssh.Config{Hosts: []ssh.Host{h.Host()}}, gputrain.Spec{MaxReplacements: -1, Lease: 30 * time.Second}, gputrain.WithResultsDir(results))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	task := gputrain.Script(`cd "$GPUTRAIN_SCRATCH"; echo one >1; until [ -e '` + dir + `/two' ]; do sleep 0.05; done; echo two >2; sleep 600`)
	task.Outputs, task.SyncEvery = []string{"*"}, time.Second
	job := pool.Start(task)
	here := filepath.Join(results, job.ID()+"-a1", "outputs")
	arrives := func(name string) {
		cut, pause := time.Now(), 300*time.Millisecond
		e2etest.Until(t, "file "+name, func() bool {
			if time.Since(cut) > pause {
				h.Link.Cut()
				cut, pause = time.Now(), pause+pause/4 // a busy machine may need longer to log in
			}
			return e2etest.Exists(filepath.Join(here, name))
		})
	}
	arrives("1")
	if err := os.WriteFile(filepath.Join(dir, "two"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	arrives("2")
	h.Server.NewHostKey() // another machine seems to answer: the node is lost
	h.Server.Kill()
	h.Server.Resume()
	r, err := job.Wait()
	var failed *gputrain.TaskError
	if !errors.As(err, &failed) || failed.Cause != gputrain.CauseNodeLost || r.OutputDir != here || len(r.Outputs) != 2 || r.Outputs[1].Attempt != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, f := range r.Outputs {
		if b, err := os.ReadFile(filepath.Join(r.OutputDir, f.Name)); err != nil || !strings.HasSuffix(string(b), "\n") {
			t.Errorf("%s is %q, %v", f.Name, b, err)
		}
	}
}

// outputsOverALinkThatIsCut brings the files of tasks that fail, and of one that is cancelled, over such a link.
func outputsOverALinkThatIsCut(t *testing.T) {
	h := e2etest.NewHost(t)
	pool := e2etest.OpenHosts(t, gputrain.Spec{Concurrency: 2}, []gputrain.Option{gputrain.WithResultsDir(t.TempDir())}, h)
	const made = `cd "$GPUTRAIN_SCRATCH"; for i in 1 2 3 4 5 6 7 8; do head -c 300000 /dev/zero >f$i; done; `
	fails, stays := gputrain.Script(made+"exit 3"), gputrain.Script(made+"echo up; exec sleep 600")
	fails.Outputs, stays.Outputs = []string{"f*"}, []string{"f*"}
	cancelled, failed := pool.Start(stays), pool.Start(fails)
	up := make([]byte, 3)
	if _, err := cancelled.Stdout().Read(up); err != nil {
		t.Fatal(err)
	}
	cancelled.Cancel()
	for cuts := 0; cuts < 10; cuts++ {
		select {
		case <-cancelled.Done():
			cuts = 10
		case <-time.After(50 * time.Millisecond):
			h.Link.Cut()
		}
	}
	for i, job := range []*gputrain.Job{cancelled, failed} {
		r, err := job.Wait()
		if err == nil || len(r.Outputs) != 8 || strings.Contains(err.Error(), "outputs") {
			t.Errorf("job %d: %d files, %v", i, len(r.Outputs), err)
		}
		for _, f := range r.Outputs {
			if f.Size != 300000 {
				t.Errorf("job %d: %+v", i, f)
			}
		}
	}
}
