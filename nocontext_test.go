package gputrain_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/report"
	"github.com/gputrain/gputrain/providers/local"
)

// A nil context is an error of every function that takes one, before anything is done, and never a panic.
func TestNilContexts(t *testing.T) {
	var none context.Context
	pool, err := gputrain.Open(t.Context(), local.Config{}, gputrain.Spec{}, gputrain.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	rec, err := observe.New(observe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	dir, opt := gputrain.StateDir(t.TempDir()), gputrain.WithStateDir(t.TempDir())
	first := func(rounds func(func([]gputrain.Resource, error) bool)) (err error) {
		for _, err = range rounds {
			break
		}
		return err
	}
	for name, call := range map[string]func() error{
		"Open": func() error { _, err := gputrain.Open(none, local.Config{}, gputrain.Spec{}, opt); return err },
		"With": func() error {
			return gputrain.With(none, local.Config{}, gputrain.Spec{}, func(context.Context, *gputrain.Compute) error { return nil }, opt)
		},
		"Attach":            func() error { _, err := gputrain.Attach(none, local.Config{}, "p", opt); return err },
		"Plan":              func() error { _, err := gputrain.Plan(none, local.Config{}, gputrain.Spec{}); return err },
		"Bake":              func() error { _, err := gputrain.Bake(none, local.Config{}, gputrain.Spec{}, opt); return err },
		"BakedImages":       func() error { _, err := gputrain.BakedImages(none, local.Config{}); return err },
		"DeleteBaked":       func() error { return gputrain.DeleteBaked(none, local.Config{}) },
		"Reap":              func() error { _, err := gputrain.Reap(none, local.Config{}); return err },
		"StateDir.Reap":     func() error { _, err := dir.Reap(none, local.Config{}); return err },
		"StateDir.ReapPool": func() error { _, err := dir.ReapPool(none, "p", local.Config{}); return err },
		"Guard":             func() error { return first(gputrain.Guard(none, time.Hour, local.Config{})) },
		"StateDir.Guard":    func() error { return first(dir.Guard(none, time.Hour, local.Config{})) },
		"Dial":              func() error { _, err := pool.Dial(none, 0, "127.0.0.1:1"); return err },
		"Forward":           func() error { _, err := pool.Forward(none, "127.0.0.1:0", 0, "127.0.0.1:1"); return err },
		"Shell":             func() error { return pool.Shell(none, 0, strings.NewReader(""), io.Discard, io.Discard) },
		"WithContext": func() error {
			_, err := pool.WithContext(none).Run(gputrain.Cmd("true"))
			return err
		},
		"WithContext.Train": func() error {
			_, err := pool.WithContext(none).Train(gputrain.Training{Task: gputrain.Cmd("true")})
			return err
		},
		"WithContext.Upload": func() error { return pool.WithContext(none).Upload("measures_test.go", "x") },
		"WriteBundle":        func() error { return report.WriteBundle(none, t.TempDir()+"/x.zip", rec, nil) },
	} {
		if err := call(); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "the context is nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := gputrain.ThisNode(none); n.Nodes != 1 {
		t.Errorf("ThisNode: %+v", n)
	}
	if share := gputrain.Shard(none, []int{1, 2}); len(share) != 2 {
		t.Errorf("Shard: %v", share)
	}
	gputrain.ReportStep(none, gputrain.Step{N: 1})
	for e := range rec.Events(none, 0) {
		t.Errorf("Events: %+v", e)
	}
	if _, err := pool.Run(gputrain.Cmd("true")); err != nil {
		t.Errorf("the pool goes on: %v", err)
	}
}
