package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
)

// Nodes that ask at the same time share a call, and each gets its own answer.
func TestDescriberSharesCalls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &cloud{inst: driver.Instance{ID: "i-1", State: driver.InstanceRunning}}
		var running, asking sync.WaitGroup
		d := NewDescriber(t.Context(), c, running.Go, func([]driver.Instance) {})
		began := time.Now()
		for i := range 40 {
			asking.Go(func() {
				id := []string{"i-1", "i-2"}[i%2]
				inst, err := d.describe(t.Context(), id)
				if id == "i-1" && (err != nil || inst.State != driver.InstanceRunning) || id == "i-2" && err == nil {
					t.Errorf("%s is %v, %v", id, inst.State, err)
				}
			})
		}
		asking.Wait()
		if c.described != 1 {
			t.Errorf("%d calls", c.described)
		}
		for range 4 {
			if _, err := d.describe(t.Context(), "i-1"); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); c.described != 5 || took < 4*describeGap {
			t.Errorf("%d calls in %v", c.described, took)
		}
		running.Wait()
	})
}

// A caller whose context ends does not wait for the answer. After the end of the pool, a caller
// gets an error.
func TestDescriberEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &cloud{err: errAway}
		var running sync.WaitGroup
		pool, end := context.WithCancel(t.Context())
		d := NewDescriber(pool, c, running.Go, func([]driver.Instance) {})
		if _, err := d.describe(t.Context(), "i-1"); !errors.Is(err, errAway) {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("enough"))
		defer cancel()
		if _, err := d.describe(ctx, "i-1"); err == nil || err.Error() != "enough" {
			t.Error(err)
		}
		end()
		running.Wait()
		if _, err := d.describe(t.Context(), "i-1"); !errors.Is(err, errAway) {
			t.Error(err)
		}
		running.Wait()
	})
}
