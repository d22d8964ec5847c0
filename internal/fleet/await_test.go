package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
)

func TestAwaitReady(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 3})
		members := tf.put(Ready, Connecting, Connecting)
		time.AfterFunc(time.Second, func() { tf.locked(members[1].Ready) })
		began := time.Now()
		if err := tf.AwaitReady(2); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		why := &driver.Error{Kind: driver.ErrBootstrap}
		time.AfterFunc(time.Second, func() { members[2].fail(why) })
		if err := tf.AwaitReady(3); !errors.Is(err, driver.ErrBootstrap) {
			t.Errorf("a member that fails: %v", err)
		}
		time.AfterFunc(time.Second, func() { tf.end(driver.ErrExpired) })
		tf.locked(func() { members[1].enter(Unreachable, nil) })
		if err := tf.AwaitReady(2); !errors.Is(err, driver.ErrExpired) {
			t.Errorf("the end of the pool: %v", err)
		}
	})
}

// AwaitEach waits until each member was ready once, or is over. Members that are over since the pool has ended do not
// count.
func TestAwaitEach(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 3})
		members := tf.put(Ready, Connecting, Connecting)
		time.AfterFunc(time.Second, func() { members[2].fail(&driver.Error{Kind: driver.ErrBootstrap}) })
		time.AfterFunc(2*time.Second, func() { tf.locked(members[1].Ready) })
		began := time.Now()
		if err := tf.AwaitEach(members); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		members = tf.put(Connecting)
		tf.end(driver.ErrExpired)
		members[0].fail(driver.ErrExpired)
		if err := tf.AwaitEach(members); !errors.Is(err, driver.ErrExpired) {
			t.Errorf("the end of the pool: %v", err)
		}
	})
}

// A Resize that cannot be done, or is overtaken by another, returns an error that says so.
func TestResizeFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 1})
		tf.put(Ready)
		tf.refusal = &driver.Error{Kind: driver.ErrNoCapacity, Err: errors.New("sold out")}
		tf.Watch(false)
		if err := tf.Resize(t.Context(), 2); !errors.Is(err, driver.ErrNoCapacity) {
			t.Errorf("no capacity: %v", err)
		}
		tf.testMachines.lock.Lock()
		tf.refusal = nil
		tf.testMachines.lock.Unlock()
		first := make(chan error, 1)
		go func() { first <- tf.Resize(t.Context(), 3) }()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := tf.Resize(ctx, 2); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nothing comes up: %v", err)
		}
		if err := <-first; err == nil || !strings.Contains(err.Error(), "another Resize, to 2 nodes") {
			t.Errorf("overtaken: %v", err)
		}
	})
}

// Wake gives an elastic fleet as many members as a rank needs, and ends with its context.
func TestWake(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Elastic: true, Most: 3, IdleTimeout: time.Hour})
		tf.Watch(false)
		time.AfterFunc(time.Second, func() {
			tf.locked(func() {
				for _, m := range tf.Members() {
					m.Ready()
				}
			})
		})
		if err := tf.Wake(t.Context(), scheduler.OnRank(1), 0); err != nil || len(tf.states()) != 2 {
			t.Errorf("%v: %v", err, tf.states())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := tf.Wake(ctx, scheduler.OnRank(2), 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a rank that does not come up: %v", err)
		}
		if err := tf.Wake(t.Context(), scheduler.OnRank(3), 0); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("a rank that there is not: %v", err)
		}
		tf.locked(func() {
			if tf.scaler.woken != 0 {
				t.Errorf("%d members are wanted still", tf.scaler.woken)
			}
		})
	})
}

// Wake makes idle members stay for another IdleTimeout.
func TestWakeKeepsIdleMembers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Elastic: true, Most: 1, IdleTimeout: time.Minute})
		tf.put(Ready)
		tf.Watch(false)
		tf.locked(tf.scaler.rescale)
		time.Sleep(time.Minute - time.Second)
		if err := tf.Wake(t.Context(), scheduler.Target{}, 0); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute - time.Second)
		if got := len(tf.states()); got != 1 {
			t.Errorf("%d members", got)
		}
		time.Sleep(time.Minute)
		if got := len(tf.states()); got != 0 {
			t.Errorf("%d members stay", got)
		}
	})
}
