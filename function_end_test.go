//go:build unix

package gputrain_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
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

// lingers runs until a file exists, as stubborn does.
func lingers(in vigil) {
	noteIn(in.Here, "here")
	for !e2etest.Exists(in.Until) {
		time.Sleep(5 * time.Millisecond)
	}
}

var (
	stubbornGenerator = gputrain.GeneratorFunc("end/generator", func(_ context.Context, in vigil, _ func(int) bool) error {
		lingers(in)
		return nil
	})
	stubbornConsumer = gputrain.ConsumerFunc("end/consumer", func(_ context.Context, ins iter.Seq[vigil]) (int, error) {
		for in := range ins {
			lingers(in)
		}
		return 0, nil
	})
	stubbornPipe = gputrain.PipeFunc("end/pipe", func(_ context.Context, ins iter.Seq[vigil], _ func(int) bool) error {
		for in := range ins {
			lingers(in)
		}
		return nil
	})
)

// A caller whose context has ended is let go, also if its function ignores that for an hour. Close waits for the function.
func TestCallersOfFunctionsAreLetGo(t *testing.T) {
	gputrain.HurryFunctions(t, time.Hour)
	last := func(err error, next error) error { return cmp.Or(next, err) }
	for name, call := range map[string]func(c *gputrain.Compute, in vigil) error{
		"Run":    func(c *gputrain.Compute, in vigil) error { _, err := stubborn.Run(c, in); return err },
		"Gather": func(c *gputrain.Compute, in vigil) error { _, err := stubborn.Gather(c, in, in); return err },
		"Stream": func(c *gputrain.Compute, in vigil) (err error) {
			for _, next := range stubborn.Stream(c, in) {
				err = last(err, next)
			}
			return err
		},
		"Broadcast": func(c *gputrain.Compute, in vigil) error { _, err := stubborn.Broadcast(c, in); return err },
		"Generator": func(c *gputrain.Compute, in vigil) (err error) {
			for _, next := range stubbornGenerator.Run(c, in) {
				err = last(err, next)
			}
			return err
		},
		"Consumer": func(c *gputrain.Compute, in vigil) error {
			_, err := stubbornConsumer.Run(c, slices.Values([]vigil{in}))
			return err
		},
		"Pipe": func(c *gputrain.Compute, in vigil) (err error) {
			for _, next := range stubbornPipe.Run(c, slices.Values([]vigil{in})) {
				err = last(err, next)
			}
			return err
		},
		"Train": func(c *gputrain.Compute, in vigil) error {
			_, err := c.Train(gputrain.Training{Task: stubborn.Call(in)})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, dir := e2etest.Open(t, gputrain.Spec{}), t.TempDir()
			in := vigil{filepath.Join(dir, "here"), filepath.Join(dir, "ends")}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			returned := make(chan error, 1)
			go func() { returned <- call(pool.WithContext(ctx), in) }()
			e2etest.Until(t, "the function's start", func() bool { return e2etest.Exists(in.Here) })
			cancel()
			select {
			case err := <-returned:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%v", err)
				}
			case <-time.After(time.Minute):
				t.Error("the caller still waits")
			}
			noteIn(in.Until, "ends")
		})
	}
}
