//go:build unix

package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// A vigil is the argument of a function that runs until a file exists and ignores its context.
type vigil struct{ Here, Until string }

type sighting struct{ PID, Slot int }

var (
	stubborn = gputrain.Func("end/stubborn", func(ctx context.Context, in vigil) (sighting, error) {
		noteIn(in.Here, "here")
		for !e2etest.Exists(in.Until) {
			time.Sleep(5 * time.Millisecond)
		}
		return sighting{os.Getpid(), gputrain.ThisNode(ctx).Slot}, nil
	})
	see = gputrain.Func("end/see", func(ctx context.Context, _ struct{}) (sighting, error) {
		return sighting{os.Getpid(), gputrain.ThisNode(ctx).Slot}, nil
	})
)

// noteIn appends a line to a file.
func noteIn(file, line string) {
	if f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintln(f, line)
		f.Close()
	}
}

// The caller gets an error after the grace if a function ignores its context. The function's
// process ends, and calls go on in a fresh one.
func TestFunctionThatIgnoresItsContext(t *testing.T) {
	gputrain.HurryFunctions(t, 50*time.Millisecond)
	for name, end := range map[string]func(pool *gputrain.Compute, in vigil) (gputrain.Cause, error){
		"timeout": func(pool *gputrain.Compute, in vigil) (gputrain.Cause, error) {
			task := stubborn.Call(in)
			task.Timeout = 50 * time.Millisecond
			_, err := pool.Run(task)
			return gputrain.CauseTimeout, err
		},
		"cancel": func(pool *gputrain.Compute, in vigil) (gputrain.Cause, error) {
			job := pool.Start(stubborn.Call(in))
			e2etest.Until(t, "the function's start", func() bool { return e2etest.Exists(in.Here) })
			job.Cancel()
			_, err := job.Wait()
			return gputrain.CauseCancelled, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool := e2etest.Open(t, gputrain.Spec{})
			before, err := see.Run(pool, struct{}{})
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			cause, err := end(pool, vigil{filepath.Join(dir, "here"), filepath.Join(dir, "never")})
			var te *gputrain.TaskError
			if !errors.As(err, &te) || te.Cause != cause || !strings.Contains(err.Error(), "ignored for 50ms") {
				t.Errorf("%v", err)
			}
			after, err := see.Run(pool, struct{}{})
			if err != nil || after.PID == before.PID {
				t.Errorf("%+v, before %+v, %v", after, before, err)
			}
			if e2etest.Runs(before.PID) { // its only slot was used until it ended
				t.Error("the old process still runs")
			}
		})
	}
}

// Functions beside one that ignores its context run to their end in the old process. That function
// keeps its slot until then.
func TestFunctionsBesideOneThatIgnoresItsContext(t *testing.T) {
	gputrain.HurryFunctions(t, 50*time.Millisecond)
	pool := e2etest.Open(t, gputrain.Spec{Concurrency: 3})
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	bad := pool.Start(stubborn.Call(vigil{at("bad"), at("never")}))
	e2etest.Until(t, "the first function's start", func() bool { return e2etest.Exists(at("bad")) })
	good := pool.Start(stubborn.Call(vigil{at("good"), at("go")}))
	e2etest.Until(t, "the second function's start", func() bool { return e2etest.Exists(at("good")) })
	bad.Cancel()
	if _, err := bad.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	fresh, err := see.Run(pool, struct{}{})
	if err != nil || fresh.Slot != 2 {
		t.Errorf("%+v, %v: its slot was given to another call", fresh, err)
	}
	noteIn(at("go"), "now")
	r, err := good.Wait()
	old, valueErr := stubborn.Value(r)
	if err = errors.Join(err, valueErr); err != nil || old.PID == fresh.PID || old.Slot != 1 {
		t.Errorf("%+v, %v", old, err)
	}
	e2etest.Until(t, "the old process's end", func() bool { return !e2etest.Runs(old.PID) })
	e2etest.Until(t, "the slot", func() bool {
		last, err := see.Run(pool, struct{}{})
		return err == nil && last.Slot == 0 && last.PID == fresh.PID
	})
}
