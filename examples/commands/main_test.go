package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

// The example on local nodes: files up, lines streamed, files down.
func TestSweepOnLocalNodes(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_PYTHON") != "" {
			t.Fatal("no python3 on this machine, and GPUTRAIN_REQUIRE_PYTHON is set: install it")
		}
		t.Skip("no python3 on this machine: install it")
	}
	out := t.TempDir()
	var w bytes.Buffer
	image := gputrain.Image{Include: []string{"./src"}, Setup: []string{"mkdir -p out"}}
	if err := sweep(t.Context(), local.Config{}, image, []float64{0.01, 0.1}, out, &w); err != nil {
		t.Fatalf("%v\n%s", err, w.String())
	}
	for _, want := range []string{"rate 0.1: epoch 8: accuracy 0.9", "rate 0.01: epoch 1:"} {
		if !strings.Contains(w.String(), want) {
			t.Errorf("no %q in what was streamed:\n%s", want, w.String())
		}
	}
	got, err := filepath.Glob(filepath.Join(out, "nodes", "*", "out", "*.json"))
	if err != nil || len(got) != 2 {
		t.Errorf("downloaded %q, %v; want the files of both tasks", got, err)
	}
	if _, err := os.Stat(filepath.Join(out, "tasks")); err != nil {
		t.Errorf("no outputs: %v", err)
	}
}
