package overdue

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
)

// over waits until the node is overdue, and returns how long that took.
func over(c *Clock) time.Duration {
	begun := time.Now()
	for {
		<-c.Due()
		if c.Over() {
			return time.Since(begun)
		}
	}
}

func TestClockEndsAfterItsLimitAndGrace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := New(time.Minute, 10*time.Second, func() bool { return true })
		if got := over(c); got != 70*time.Second {
			t.Errorf("over after %v", got)
		}
	})
}

// A node that cannot be reached gets its whole grace once it can be.
func TestClockWaitsWhileTheNodeCannotBeReached(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var up atomic.Bool
		time.AfterFunc(time.Hour, func() { up.Store(true) })
		c := New(time.Minute, 10*time.Second, up.Load)
		if got := over(c); got < time.Hour+9*time.Second || got > time.Hour+11*time.Second {
			t.Errorf("over after %v", got)
		}
	})
}

// A program that slept for longer than limit and grace has not listened: the node still gets its
// grace.
func TestClockDoesNotCountSleep(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := New(time.Minute, 10*time.Second, func() bool { return true })
		time.Sleep(time.Hour)
		if got := over(c); got != 10*time.Second {
			t.Errorf("overdue %v after waking up", got)
		}
	})
}

func TestClockRestarts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := New(time.Minute, 10*time.Second, func() bool { return true })
		time.AfterFunc(65*time.Second, c.Restart)
		if got := over(c); got < 135*time.Second || got > 136*time.Second {
			t.Errorf("over after %v", got)
		}
	})
}

func TestNilClockIsNeverDue(t *testing.T) {
	var c *Clock
	c.Restart()
	c.Stop()
	if c.Due() != nil {
		t.Error("a nil clock is due")
	}
}
