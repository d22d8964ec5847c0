// Package slurm tests providers/slurm against a real Slurm: that of testbed, a controller that is the login node
// too, and two compute nodes, in containers of the local engine.
package slurm

import (
	"log"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	if e2etest.PlaysRole() {
		return
	}
	e2etest.EachLooksForLeaks(m)
	state, err := os.MkdirTemp("", "gputrain-state-")
	if err != nil {
		log.Fatal(err)
	}
	os.Setenv("XDG_STATE_HOME", state)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		takeDownAll()
		os.RemoveAll(state)
		os.Exit(code)
	}))
}
