package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gputrain/gputrain/internal/test/disktest"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// Each attempt has a directory that no other attempt has or had, until its release.
func TestScratch(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		link := opensshtest.Proxy(t, srv.Addr)
		n := start(t, connect(t, srv, link.Addr), config(t, shell))
		if r := run(t, n, Spec{Script: `echo "${GPUTRAIN_SCRATCH-none}"`}); r.out != "none\n" || r.Scratch != "" {
			t.Errorf("%+v", r)
		}
		if left, err := os.ReadDir(n.facts.Root + "/s"); err != nil || len(left) > 0 {
			t.Errorf("made without need: %v, %v", left, err)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := map[string]bool{}
		for w := range 4 {
			wg.Go(func() {
				for i := range 20 {
					if w == 0 && i%7 == 3 {
						link.Cut()
					}
					id := fmt.Sprintf("sc-%d-%d", w, i)
					r := run(t, n, Spec{ID: id, Scratch: true, Script: `set -e; cd "$GPUTRAIN_SCRATCH"; ls -A; mkdir sub; echo "$GPUTRAIN_TASK" >sub/mine; chmod 500 sub; pwd`})
					mine, err := os.ReadFile(r.Scratch + "/sub/mine")
					if r.err != nil || r.out != r.Scratch+"\n" || err != nil || string(mine) != id+"\n" || n.Scratch(id) != r.Scratch {
						t.Errorf("%+v, %v, %v", r, n.Scratch(id), err)
					}
					mu.Lock()
					if seen[r.Scratch] {
						t.Errorf("%s was used twice", r.Scratch)
					}
					seen[r.Scratch] = true
					mu.Unlock()
					n.Release(id)
					if n.Scratch(id) != "" {
						t.Error("released, but still known")
					}
				}
			})
		}
		wg.Wait()
		until(t, "the end of what was released", func() bool { // and of nothing else
			left, err := filepath.Glob(n.facts.Root + "/s/*/sub")
			if err != nil {
				t.Fatal(err)
			}
			return len(left) == 0
		})
	})
}

// A task has a folder for its step files beside its scratch directory, and its end says whether there are any. Both go with
// its release.
func TestStepFiles(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		n := start(t, connect(t, srv, ""), config(t, shell))
		if r := run(t, n, Spec{Script: `echo "${GPUTRAIN_STEPS-none}"`}); r.out != "none\n" || r.Steps {
			t.Errorf("%+v", r)
		}
		for id, want := range map[string]bool{"none": false, "unfinished": false, "some": true} {
			script := map[string]string{"none": ":", "unfinished": `echo 3 >"$GPUTRAIN_STEPS/.0"`, "some": `echo 3 >"$GPUTRAIN_STEPS/.0"; mv "$GPUTRAIN_STEPS/.0" "$GPUTRAIN_STEPS/0"`}[id]
			r := run(t, n, Spec{ID: id, Scratch: true, Script: `ls -A "$GPUTRAIN_STEPS"; ls -A "$GPUTRAIN_SCRATCH"; echo "$GPUTRAIN_STEPS"; ` + script + "; exit 5"})
			if r.err != nil || r.Code != 5 || r.Steps != want || r.DiskFull || r.out != Steps(r.Scratch)+"\n" {
				t.Errorf("%s: %+v", id, r)
			}
			n.Release(id)
		}
		until(t, "the end of what was released", func() bool {
			left, err := filepath.Glob(n.facts.Root + "/s/*/*0")
			return err == nil && len(left) == 0
		})
	})
}

// A running task keeps its directory after the release.
func TestScratchReleasedEarly(t *testing.T) {
	n := start(t, connect(t, opensshtest.Start(t), ""), config(t, "perl"))
	r := runCtx(t.Context(), n, Spec{ID: "a", Scratch: true, Script: `sleep 1.5; echo x >"$GPUTRAIN_SCRATCH/f" && cat "$GPUTRAIN_SCRATCH/f"`}, func() { n.Release("a") })
	if r.err != nil || r.out != "x\n" || n.Scratch("a") != "" {
		t.Errorf("%+v", r)
	}
}

func TestScratchFullDisk(t *testing.T) {
	dir := disktest.Small(t, 256<<10)
	cfg := config(t, "perl")
	cfg.Root = dir + "/pool"
	n := start(t, connect(t, opensshtest.Start(t), ""), cfg)
	if err := os.Remove(n.facts.Root + "/s"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(n.facts.Root+"/s", nil, 0o600); err != nil { // no directory can be made here
		t.Fatal(err)
	}
	r := run(t, n, Spec{Scratch: true, Args: []string{"true"}})
	if !errors.Is(r.err, ErrNotStarted) || !errors.Is(r.err, ErrDiskFull) {
		t.Errorf("%+v", r)
	}
}
