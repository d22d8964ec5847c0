// Package gpu tests pools on a real GPU of this machine, by programs with PyTorch. Without one its tests are skipped.
package gpu

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/observe"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	e2etest.Main(m)
}

// A watched pool keeps its events, and has a recorder.
type watched struct {
	*gputrain.Compute
	recorder *observe.Recorder

	mu     sync.Mutex
	events []gputrain.Event
}

// open opens a pool of one node of this machine, with the GPU.
func open(t *testing.T, spec gputrain.Spec, opts ...gputrain.Option) *watched {
	t.Helper()
	spec.Accelerator = e2etest.NeedGPU(t)
	spec.Image.Include = []string{"testdata"}
	rec, err := observe.New(observe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rec.Close() })
	w := &watched{recorder: rec}
	w.Compute = e2etest.Open(t, spec, append(opts, rec.Option(), gputrain.WithEvents(func(e gputrain.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, e)
	}))...)
	return w
}

// find returns the events for which wanted reports true.
func (w *watched) find(wanted func(gputrain.Event) bool) (found []gputrain.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(func(yield func(gputrain.Event) bool) {
		for _, e := range w.events {
			if wanted(e) && !yield(e) {
				return
			}
		}
	})
}

// program is a task that runs a program of testdata on the GPU.
func program(file string, args ...string) gputrain.Task {
	t := gputrain.Cmd("python3", append([]string{"testdata/" + file}, args...)...)
	t.Name = file
	t.Accelerators = 1
	return t
}

// failure returns how a task failed.
func failure(t *testing.T, err error) *gputrain.TaskError {
	t.Helper()
	failed, ok := errors.AsType[*gputrain.TaskError](err)
	if !ok {
		t.Fatalf("got %v, want a TaskError", err)
	}
	return failed
}
