package fleet

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
)

// A visit keeps a member from being ended for being idle, and from nothing else.
func TestVisitKeepsAnIdleMember(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Elastic: true, Most: 3, IdleTimeout: time.Minute})
		tf.Watch(false)
		members := tf.put(Ready, Ready, Ready)
		visit, err := NewVisit(t.Context(), tf.Fleet, 2)
		if err != nil || visit.Member != members[2] {
			t.Fatal(err)
		}
		tf.scaler.rescale()
		time.Sleep(3 * time.Minute)
		if got := tf.names(); !slices.Equal(got, []string{"p-2"}) {
			t.Errorf("after IdleTimeout: %v", got)
		}
		visit.Leave()
		visit.Leave()
		time.Sleep(59 * time.Second)
		if got := tf.names(); !slices.Equal(got, []string{"p-2"}) {
			t.Errorf("before IdleTimeout after the visit: %v", got)
		}
		time.Sleep(2 * time.Second)
		if got := tf.names(); got != nil {
			t.Errorf("after IdleTimeout after the visit: %v", got)
		}
	})
}

// Resize does not wait for visits, but ends members without them first.
func TestVisitDoesNotHoldUpResize(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 3})
		tf.Watch(false)
		tf.put(Ready, Ready, Ready)
		for _, rank := range []int{1, 2} {
			if _, err := NewVisit(t.Context(), tf.Fleet, rank); err != nil {
				t.Fatal(err)
			}
		}
		if err := tf.Resize(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if got := tf.names(); !slices.Equal(got, []string{"p-1"}) {
			t.Errorf("left: %v", got)
		}
	})
}

func TestVisitWaitsForItsMember(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 2, Elastic: true, Most: 4})
		members := tf.put(Bootstrapping, Unreachable)
		for rank, kind := range map[int]error{-1: driver.ErrInvalid, 4: driver.ErrInvalid, 3: driver.ErrUnavailable} {
			if _, err := NewVisit(t.Context(), tf.Fleet, rank); !errors.Is(err, kind) {
				t.Errorf("rank %d: %v", rank, err)
			}
		}
		if _, err := NewVisit(t.Context(), tf.Fleet, 1); err != nil {
			t.Errorf("a member whose connection is down, for which the caller waits: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := NewVisit(ctx, tf.Fleet, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a member that does not come up: %v", err)
		}
		began := time.Now()
		time.AfterFunc(time.Hour, func() { tf.locked(members[0].Ready) })
		if _, err := NewVisit(t.Context(), tf.Fleet, 0); err != nil || time.Since(began) != time.Hour {
			t.Errorf("a member that comes up: %v after %v", err, time.Since(began))
		}
		tf.end(driver.ErrClosed)
		if _, err := NewVisit(t.Context(), tf.Fleet, 0); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}
