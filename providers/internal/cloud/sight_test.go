package cloud

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// What it means that a cloud does not know a machine, by what was seen of it before.
func TestAbsenceIsNoProof(t *testing.T) {
	caps := driver.Capabilities{ListLag: 15 * time.Second, ProvisionTimeout: 20 * time.Minute}
	const never = time.Duration(-1)
	for _, tt := range []struct {
		name    string
		before  func() Sight
		goneAt  time.Duration // after the first look that does not show it
		missing driver.InstanceState
	}{
		{"made here, and never shown", func() Sight { return MadeAt(time.Now()) }, 20 * time.Minute, driver.InstancePending},
		{"its end was accepted", func() Sight {
			s := MadeAt(time.Now())
			s.Ended(true)
			return s
		}, 15 * time.Second, driver.InstancePending},
		{"nothing was found to end", func() Sight {
			s := MadeAt(time.Now())
			s.Ended(false)
			return s
		}, max(unseenFor*Second, 15*time.Second), driver.InstancePending},
		{"made by another program", func() Sight { return Sight{} }, 15 * time.Second, driver.InstanceUnknown},
		{"made by another program, and its end was accepted", func() (s Sight) {
			s.Ended(true)
			return s
		}, 15 * time.Second, driver.InstanceUnknown},
		{"it was pending", func() Sight {
			s := MadeAt(time.Now().Add(-time.Minute))
			s.Seen(driver.InstancePending)
			return s
		}, 15 * time.Second, driver.InstancePending},
		{"it ran", func() Sight {
			s := MadeAt(time.Now().Add(-time.Minute))
			s.Seen(driver.InstanceRunning)
			return s
		}, 0, driver.InstancePending},
		{"it ran, and its end was accepted", func() Sight {
			s := MadeAt(time.Now())
			s.Seen(driver.InstanceRunning)
			s.Ended(true)
			return s
		}, 0, driver.InstancePending},
	} {
		synctest.Test(t, func(t *testing.T) {
			opened := time.Now()
			s := tt.before()
			if state := s.Missing(); state != tt.missing {
				t.Errorf("%s: it is %v", tt.name, state)
			}
			at := never
			for begun := time.Now(); at == never && time.Since(begun) <= time.Hour; time.Sleep(time.Second / 10) {
				if s.IsGone(caps, opened) {
					at = time.Since(begun)
				}
			}
			if at < tt.goneAt || at > tt.goneAt+time.Second/5 {
				t.Errorf("%s: gone after %v, want %v", tt.name, at, tt.goneAt)
			}
		})
	}
}

// A machine that is shown again was not gone, and a second look that lacks it counts from then on.
func TestAbsenceThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caps := driver.Capabilities{ListLag: 10 * time.Second}
		s := MadeAt(time.Now().Add(-time.Minute))
		for range 3 {
			s.Seen(driver.InstancePending)
			if s.IsGone(caps, time.Time{}) {
				t.Fatal("at the first look that lacks it")
			}
			time.Sleep(9 * time.Second)
			if s.IsGone(caps, time.Time{}) {
				t.Fatal("within the lag")
			}
		}
		time.Sleep(2 * time.Second)
		if !s.IsGone(caps, time.Time{}) {
			t.Error("after the lag")
		}
	})
}
