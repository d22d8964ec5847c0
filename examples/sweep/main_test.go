package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

func TestMain(m *testing.M) {
	gputrain.Init() // on a node the test binary serves the functions, as the program does
	os.Exit(m.Run())
}

// The example on local nodes, with a small grid.
func TestSweepOnLocalNodes(t *testing.T) {
	settings := []params{
		{Hidden: 0, LearningRate: 0.003, Momentum: 0.9, Batch: 32, Epochs: 2, Seed: 1},
		{Hidden: 16, LearningRate: 0.1, Momentum: 0.9, Batch: 32, Epochs: 10, Seed: 1},
		{Hidden: 0, LearningRate: 0.1, Momentum: 0.9, Batch: 32, Epochs: 10, Seed: 1},
	}
	var w bytes.Buffer
	if err := sweep(t.Context(), local.Config{}, 2, settings, &w); err != nil {
		t.Fatalf("%v\n%s", err, w.String())
	}
	for _, want := range []string{"training 3 networks on 2 nodes", "Held-out test accuracy: 0.9"} {
		if !strings.Contains(w.String(), want) {
			t.Errorf("no %q in:\n%s", want, w.String())
		}
	}
}
