//go:build linux

package faults

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// TestWorkerThatIsKilledWhileItStarts kills the first worker as soon as its process exists. The
// waiting call has not begun: it waits for the next worker.
func TestWorkerThatIsKilledWhileItStarts(t *testing.T) {
	h := e2etest.NewHost(t)
	pool := e2etest.OpenHosts(t, gputrain.Spec{}, nil, h)
	task := e2etest.Norm.Call(e2etest.Point{X: 3, Y: 4})
	task.Retries = 1 // in case the worker already serves when it is seen
	job := pool.Start(task)
	e2etest.Until(t, "a worker", func() bool { return h.KillWorker() > 0 })
	r, err := job.Wait()
	if got, _ := e2etest.Norm.Value(r); err != nil || got != 25 {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestLinkIsCutWhileAWorkerStarts cuts the link repeatedly until a call on a new worker has
// returned.
func TestLinkIsCutWhileAWorkerStarts(t *testing.T) {
	h := e2etest.NewHost(t)
	pool := e2etest.OpenHosts(t, gputrain.Spec{}, nil, h)
	job := pool.Start(e2etest.Norm.Call(e2etest.Point{X: 3, Y: 4}))
	for cuts := 0; cuts < 20; cuts++ {
		select {
		case <-job.Done():
			cuts = 20
		case <-time.After(20 * time.Millisecond):
			h.Link.Cut()
		}
	}
	r, err := job.Wait()
	if got, _ := e2etest.Norm.Value(r); err != nil || got != 25 || r.Attempts != 1 {
		t.Errorf("got %v in %d attempts, %v", got, r.Attempts, err)
	}
}
