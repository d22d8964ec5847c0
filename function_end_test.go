//go:build unix

package gputrain_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
)

// A vigil is a function that goes on until a file is there, whatever its
// context says.
type vigil struct{ Here, Until string }

type sighting struct{ PID, Slot int }

var (
	stubborn = gputrain.Func("end/stubborn", func(ctx context.Context, in vigil) (sighting, error) {
		note(in.Here, "here")
		for !exists(in.Until) {
			time.Sleep(5 * time.Millisecond)
		}
		return sighting{os.Getpid(), gputrain.ThisNode(ctx).Slot}, nil
	})
	see = gputrain.Func("end/see", func(ctx context.Context, _ struct{}) (sighting, error) {
		return sighting{os.Getpid(), gputrain.ThisNode(ctx).Slot}, nil
	})
)

// A function that ignores its context is answered for after the grace. Its
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
			until(t, "the function's start", func() bool { return exists(in.Here) })
			job.Cancel()
			_, err := job.Wait()
			return gputrain.CauseCancelled, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool := open(t, gputrain.Spec{})
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
			if runs(before.PID) { // the only slot was not free before
				t.Error("the process goes on")
			}
		})
	}
}

// What runs beside such a function goes on to its end in the old process, and
// the function keeps its slot until then.
func TestFunctionsBesideOneThatIgnoresItsContext(t *testing.T) {
	gputrain.HurryFunctions(t, 50*time.Millisecond)
	pool := open(t, gputrain.Spec{Concurrency: 3})
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	bad := pool.Start(stubborn.Call(vigil{at("bad"), at("never")}))
	until(t, "the first function's start", func() bool { return exists(at("bad")) })
	good := pool.Start(stubborn.Call(vigil{at("good"), at("go")}))
	until(t, "the second function's start", func() bool { return exists(at("good")) })
	bad.Cancel()
	if _, err := bad.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	fresh, err := see.Run(pool, struct{}{})
	if err != nil || fresh.Slot != 2 {
		t.Errorf("%+v, %v: its slot is another's", fresh, err)
	}
	note(at("go"), "now")
	r, err := good.Wait()
	old, valueErr := stubborn.Value(r)
	if err = errors.Join(err, valueErr); err != nil || old.PID == fresh.PID || old.Slot != 1 {
		t.Errorf("%+v, %v", old, err)
	}
	until(t, "the old process's end", func() bool { return !runs(old.PID) })
	until(t, "the slot", func() bool {
		last, err := see.Run(pool, struct{}{})
		return err == nil && last.Slot == 0 && last.PID == fresh.PID
	})
}
