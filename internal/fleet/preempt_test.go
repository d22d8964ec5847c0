package fleet

import (
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/internal/test/bubble"
)

// After a notice of preemption a member takes no tasks, and no replacement is rented yet. If the
// machine is not taken back, the member takes tasks again.
func TestANoticeOfPreemption(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 1, Replacements: 3})
		m := tf.put(Ready)[0]
		o := &owner{member: m, Guest: testGuest{}}
		at := time.Now().Add(time.Minute)
		o.Noticed(at)
		o.Noticed(at.Add(time.Hour)) // the same notice again
		task := tf.submit(t, scheduler.Target{})
		for range 2 {
			tf.locked(func() {
				if (host{m}).State() != scheduler.Leaving || m.Slots.Busy() != 0 || len(tf.Members()) != 1 {
					t.Errorf("%v, %d tasks", (host{m}).State(), m.Slots.Busy())
				}
			})
			time.Sleep(time.Minute)
			o.Reachable(true)
		}
		time.Sleep(node.UnreachableTimeout)
		o.Reachable(true)
		tf.locked(func() {
			if (host{m}).State() != scheduler.Open || m.Slots.Busy() != 1 {
				t.Errorf("%v, %d tasks", (host{m}).State(), m.Slots.Busy())
			}
		})
		task.end <- scheduler.None
		if got := tf.all(); !slices.Equal(got, []string{"0 notice", "0 spared"}) || len(tf.purchases()) != 0 {
			t.Errorf("%v, rented %v", got, tf.purchases())
		}
	})
}

// If all nodes that were reached, and more than one, are down at once, this program is offline.
func TestOffline(t *testing.T) {
	for _, tt := range []struct {
		states []State
		want   bool
	}{
		{[]State{Unreachable, Unreachable}, true},
		{[]State{Unreachable, Unreachable, Connecting, Lost}, true},
		{[]State{Unreachable, Ready, Unreachable}, false},
		{[]State{Unreachable}, false},
	} {
		tf := newTest(t, Config{Least: len(tt.states)})
		m := tf.put(tt.states...)[0]
		if got := (&owner{member: m}).Offline(); got != tt.want {
			t.Errorf("%v: %v", tt.states, got)
		}
	}
}
