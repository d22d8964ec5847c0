package tasks

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/local"
)

// A command that Attach finds running is reported as started, and WithTaskEnv is not asked for its environment, which it has.
// The command that is started after it is.
func TestAttachToARunningCommand(t *testing.T) {
	dir := t.TempDir()
	gate := filepath.Join(dir, "go")
	state, provider := gputrain.WithStateDir(t.TempDir()), local.Config{Dir: t.TempDir()}
	pool, err := gputrain.Open(t.Context(), provider, gputrain.Spec{}, state)
	if err != nil {
		t.Fatal(err)
	}
	running := gputrain.Script("touch " + gate + ".begun; until [ -e " + gate + " ]; do sleep 0.02; done; echo \"of $WHO\"")
	running.Name, running.Env = "running", map[string]string{"WHO": "the first program"}
	pool.Start(running)
	waiting := gputrain.Script(`echo "of $WHO"`)
	waiting.Name = "waiting"
	e2etest.Until(t, "the start of the command", func() bool { return e2etest.Exists(gate + ".begun") })
	pool.Start(waiting)
	id, err := pool.Detach()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var asked, started []string
	pool, err = gputrain.Attach(t.Context(), provider, id, state,
		gputrain.WithTaskEnv(func(e gputrain.Event) map[string]string {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, e.Name)
			return map[string]string{"WHO": "the second program"}
		}),
		gputrain.WithEvents(func(e gputrain.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == gputrain.EventTask && e.State == "started" {
				started = append(started, e.Name)
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var printed []string
	for _, job := range pool.Jobs() {
		r, err := job.Wait()
		if err != nil {
			t.Fatal(err)
		}
		printed = append(printed, string(r.Stdout))
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if slices.Sort(printed); !slices.Equal(printed, []string{"of the first program\n", "of the second program\n"}) {
		t.Errorf("they printed %q", printed)
	}
	if !slices.Equal(asked, []string{"waiting"}) || !slices.Equal(started, []string{"running", "waiting"}) {
		t.Errorf("asked for %q, started %q", asked, started)
	}
}
