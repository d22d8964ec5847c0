//go:build unix

package crash

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/sidebyside"
	"github.com/gputrain/gputrain/providers/container"
)

// killedInEveryPhase kills programs with SIGKILL at every stage of a pool of containers. Reap then
// leaves nothing of it, and does not affect a pool of this program, which lives.
func killedInEveryPhase(t *testing.T) {
	living := e2etest.OpenContainers(t, container.Config{}, gputrain.Spec{Concurrency: 2}, gputrain.WithStateDir(t.TempDir()))
	job := living.Start(gputrain.Script(`until [ -e done ]; do sleep 0.1; done; echo undisturbed`))
	var kills []sidebyside.Test
	try := func(name string, v victim, said string, then time.Duration) {
		kills = append(kills, sidebyside.Test{Name: name, Run: func(t *testing.T) { killAndReap(t, v, said, then) }})
	}
	for _, at := range []string{
		"offers", "prepare", "prepared", "launch", "half launched", "launched",
		"terminate", "half terminated", "terminated", "release", "released",
	} {
		try(at, victim{HangAt: at, Work: "nothing"}, "at "+at, 0)
	}
	slow := gputrain.Spec{Image: gputrain.Image{Setup: []string{"sleep 60"}}}
	try("connecting", victim{Work: "stand"}, "node connecting", 0)
	try("bootstrapping", victim{Work: "stand", Spec: slow}, "phase started", 0)
	try("ready", victim{Work: "stand"}, "pool ready", 0)
	try("running", victim{Work: "sleep"}, "task started", 0)
	// At a random moment during a call of the engine, whose command outlives the program.
	for _, at := range []string{"prepare", "launch", "launch ", "launch  ", "terminate", "release"} {
		then := rand.N(400 * time.Millisecond)
		t.Log(at, "and", then)
		try("during "+at, victim{Work: "nothing"}, "at "+strings.TrimSpace(at), then)
	}
	sidebyside.Run(t, 2, kills) // so that the engine finishes within seconds
	if r, err := living.Run(gputrain.Script(`touch done; echo still here`)); err != nil || string(r.Stdout) != "still here\n" {
		t.Errorf("the living pool says %q, %v", r.Stdout, err)
	}
	if r, err := job.Wait(); err != nil || string(r.Stdout) != "undisturbed\n" || r.Attempts != 1 {
		t.Errorf("the living pool's job: %q, %v", r.Stdout, err)
	}
}

func killAndReap(t *testing.T, v victim, said string, then time.Duration) {
	v.State, v.Name, v.Spec.Nodes = t.TempDir(), "crash", 2
	r := v.start(t)
	r.Await(said)
	time.Sleep(then)
	r.Kill()
	began := v.HangAt != "offers"
	var id string
	if began {
		if pools, _ := filepath.Glob(filepath.Join(v.State, "pools", "*.ledger")); len(pools) == 1 {
			id = strings.TrimSuffix(filepath.Base(pools[0]), ".ledger")
		} else if then == 0 {
			t.Errorf("the ledgers are %v", pools)
		}
	}
	gone, err := gputrain.StateDir(v.State).Reap(t.Context(), container.Config{})
	if err != nil {
		t.Errorf("reap: %v", err)
	}
	t.Logf("%d resources ended", len(gone))
	wantNoPools(t, v.State)
	if id == "" {
		return
	}
	e2etest.Until(t, "the end of what the engine was still asked for", func() bool { return len(e2etest.ProcessesWith("TMPDIR="+r.Tmp)) == 0 })
	e2etest.WantNothingOf(t, id)
}
