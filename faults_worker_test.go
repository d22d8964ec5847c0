//go:build linux

package gputrain_test

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain"
)

// TestWorkerThatIsKilledWhileItStarts kills the first worker as soon as its
// process is there. The call that waits for it has not begun: it waits for the next.
func TestWorkerThatIsKilledWhileItStarts(t *testing.T) {
	h := newHost(t)
	pool := openHosts(t, gputrain.Spec{}, nil, h)
	task := norm.Call(point{3, 4})
	task.Retries = 1 // should the worker have served already when it is seen
	job := pool.Start(task)
	until(t, "a worker", func() bool { return h.killWorker() > 0 })
	r, err := job.Wait()
	if got, _ := norm.Value(r); err != nil || got != 25 {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestLinkIsCutWhileAWorkerStarts cuts the link again and again until a call
// on a fresh worker has returned.
func TestLinkIsCutWhileAWorkerStarts(t *testing.T) {
	h := newHost(t)
	pool := openHosts(t, gputrain.Spec{}, nil, h)
	job := pool.Start(norm.Call(point{3, 4}))
	for cuts := 0; cuts < 20; cuts++ {
		select {
		case <-job.Done():
			cuts = 20
		case <-time.After(20 * time.Millisecond):
			h.link.Cut()
		}
	}
	r, err := job.Wait()
	if got, _ := norm.Value(r); err != nil || got != 25 || r.Attempts != 1 {
		t.Errorf("got %v in %d attempts, %v", got, r.Attempts, err)
	}
}
