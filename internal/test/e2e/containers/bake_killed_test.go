package containers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
)

// A baking program bakes an image with an engine that waits at a command.
type baking struct {
	Config   container.Config
	StateDir string
	Image    gputrain.Image
}

var bakingPrograms = e2etest.NewRole("baking", func(b baking) error {
	img, err := gputrain.Bake(context.Background(), b.Config, gputrain.Spec{Image: b.Image}, gputrain.WithStateDir(b.StateDir), gputrain.WithResultsDir(b.StateDir))
	e2etest.Say("made %s, %v", img.ID, err)
	return err
})

// waitingEngine returns an engine's command that waits at those commands that match a pattern of sh, and a function that
// waits until it does.
func waitingEngine(t *testing.T, pattern string) (binary string, waits func()) {
	t.Helper()
	dir := t.TempDir()
	binary, reached := filepath.Join(dir, "engine"), filepath.Join(dir, "reached")
	e2etest.WriteText(t, binary, fmt.Sprintf("#!/bin/sh\ncase \"$*\" in %s) >'%s'; while [ -e '%[2]s' ]; do sleep 0.1; done; exit 1 ;; esac\nexec docker \"$@\"\n", pattern, reached))
	if err := os.Chmod(binary, 0o755); err != nil {
		t.Fatal(err)
	}
	return binary, func() { e2etest.Until(t, "the program is at "+pattern, func() bool { return e2etest.Exists(reached) }) }
}

// If a program is killed while it bakes, Reap removes what there is of the image, by the ledger or, on another computer,
// by the engine. An image that was finished just before stays.
func TestKilledWhileBaking(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: programs are killed")
	}
	for name, tt := range map[string]struct {
		at       string
		finished bool
	}{
		"before the image":      {"commit*", false},
		"before it is finished": {"tag*localhost/gputrain/baked*", false},
		"just after":            {"'image rm localhost/gputrain/baking'*", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBakery(t, gputrain.Image{Setup: []string{"true # " + t.Name() + time.Now().String()}})
			binary, waits := waitingEngine(t, tt.at)
			state := t.TempDir()
			cfg := b.cfg
			cfg.Binary = binary
			child := bakingPrograms.Start(t, baking{cfg, state, b.spec.Image})
			waits()
			child.Kill()
			pools, err := gputrain.StateDir(state).Pools()
			if err != nil || len(pools) != 1 || !strings.HasPrefix(pools[0].ID, "bake-") {
				t.Fatalf("the pools are %+v, %v", pools, err)
			}
			unfinished := func() string {
				return e2etest.Docker(t, "image", "ls", "--quiet", "localhost/gputrain/baking:"+pools[0].ID)
			}
			if there := unfinished() != ""; there != (tt.at != "commit*") {
				t.Errorf("an image in the making is there: %v", there)
			}
			ended, err := gputrain.StateDir(state).Reap(t.Context(), b.cfg)
			if err != nil {
				t.Error(err)
			}
			isImage := func(r gputrain.Resource) bool { return r.Kind == "image" && r.Pool == pools[0].ID }
			if slices.ContainsFunc(ended, isImage) != (tt.at != "commit*") {
				t.Errorf("Reap has ended %+v", ended)
			}
			if left := unfinished(); left != "" {
				t.Errorf("Reap has left %s", left)
			}
			e2etest.WantNothingOf(t, pools[0].ID)
			if left, err := gputrain.StateDir(state).Pools(); err != nil || len(left) != 0 {
				t.Errorf("the ledgers %+v are left, %v", left, err)
			}
			if got := b.images(t.Context()); (len(got) == 1) != tt.finished {
				t.Errorf("the images are %+v", got)
			}
		})
	}
}
