package fleet

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
)

// An elastic fleet grows with the tasks that wait, up to Most, and ends idle members, highest ranks
// first.
func TestAnElasticFleetFollowsItsTasks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Elastic: true, Most: 3, Slots: 2, IdleTimeout: time.Minute})
		tf.Watch(false)
		var tasks []*testWork
		for range 5 {
			tasks = append(tasks, tf.submit(t, scheduler.Target{}))
		}
		time.Sleep(time.Second)
		var rented []int
		for _, p := range tf.purchases() {
			rented = append(rented, p.ranks...)
		}
		if !slices.Equal(rented, []int{0, 1, 2}) {
			t.Fatalf("rented: %v", rented)
		}
		tf.locked(func() {
			for _, m := range tf.Members() {
				m.Ready()
			}
		})
		for _, task := range tasks[2:] { // those on the highest ranks
			task.end <- scheduler.None
		}
		time.Sleep(time.Minute - time.Second)
		if got := tf.states(); !slices.Equal(got, []State{Ready, Ready, Ready}) {
			t.Errorf("before IdleTimeout: %v", got)
		}
		time.Sleep(2 * time.Second)
		if got := tf.states(); !slices.Equal(got, []State{Ready}) {
			t.Errorf("after IdleTimeout: %v", got)
		}
	})
}

// An elastic fleet's demand depends on its tasks, on the highest rank that a task asks for, and on
// Wake.
func TestDemand(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Elastic: true, Most: 9, Slots: 3})
		demand := func() (n int) {
			tf.locked(func() { n = tf.scaler.demand() })
			return n
		}
		for tasks, want := range []int{0, 1, 1, 1, 2} {
			if got := demand(); got != want {
				t.Errorf("%d tasks: %d", tasks, got)
			}
			tf.submit(t, scheduler.Target{})
		}
		tf.submit(t, scheduler.OnRank(4))
		if got := demand(); got != 5 {
			t.Errorf("with a task on rank 4: %d", got)
		}
		tf.locked(func() { tf.scaler.woken = 7 })
		if got := demand(); got != 7 {
			t.Errorf("with a Wake: %d", got)
		}
	})
}

// After a purchase that failed, an elastic fleet pauses before it grows.
func TestAnElasticFleetPauses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Elastic: true, Most: 2})
		tf.refusal = &driver.Error{Kind: driver.ErrInvalid}
		tf.Watch(false)
		first := tf.submit(t, scheduler.Target{})
		if err := <-first.stranded; err == nil {
			t.Error("no reason")
		}
		tf.submit(t, scheduler.OnRank(0))
		time.Sleep(growPause - time.Second)
		if got := tf.purchases(); len(got) != 1 {
			t.Errorf("%v after %v", got, growPause-time.Second)
		}
		if got := tf.states(); len(got) != 0 {
			t.Errorf("members that failed: %v", got)
		}
	})
}

// Members with the fewest tasks end first, then those that are still coming up, then those that cannot be reached, whoever
// waits for them, then those of the highest ranks.
func TestFirstToLeave(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 5, Slots: 2})
		members := tf.put(Ready, Ready, Bootstrapping, Ready, Unreachable)
		tf.locked(func() { tf.Tasks.Take(members[3].Slots, 0) })
		members[4].visits = 2
		tf.locked(func() { slices.SortStableFunc(members, firstToLeave) })
		var ranks []int
		for _, m := range members {
			ranks = append(ranks, m.Rank())
		}
		if want := []int{2, 4, 1, 0, 3}; !slices.Equal(ranks, want) {
			t.Errorf("%v", ranks)
		}
	})
}

// A fleet that shrinks ends idle members at once, and the others once their tasks are over. A
// member that stays then gets the rank of one that ended.
func TestResizeEndsWhatIsTooMany(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 3})
		members := tf.put(Ready, Ready, Ready)
		tf.Watch(false)
		tf.locked(func() {
			tf.Tasks.Take(members[1].Slots, 0)
			tf.Tasks.Take(members[2].Slots, 0)
		})
		resized := make(chan error, 1)
		go func() { resized <- tf.Resize(t.Context(), 1) }()
		time.Sleep(time.Second)
		if got := tf.names(); !slices.Equal(got, []string{"p-2", "p-1"}) {
			t.Errorf("while tasks run: %v", got)
		}
		tf.Tasks.Free(members[2].Slots, 0) // it had the higher rank until p-0 ended
		time.Sleep(time.Second)
		if got := tf.names(); !slices.Equal(got, []string{"p-1"}) {
			t.Errorf("once a task is over: %v", got)
		}
		if err := <-resized; err != nil {
			t.Error(err)
		}
		if got := tf.ends(); !slices.Equal(got, []string{"i-0", "i-2"}) {
			t.Errorf("ended %v", got)
		}
	})
}

// A fleet that is not elastic keeps members that are over, unless they exceed its size.
func TestMembersThatAreOver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 2})
		tf.put(Lost, Ready, Failed, Ready)
		tf.locked(tf.scaler.trim)
		if got := tf.names(); !slices.Equal(got, []string{"p-0", "p-1", "p-3"}) {
			t.Errorf("%v", got)
		}
		elastic := newTest(t, Config{Elastic: true, Least: 2})
		elastic.put(Lost, Ready, Failed, Ready)
		elastic.locked(elastic.scaler.trim)
		if got := elastic.names(); !slices.Equal(got, []string{"p-3", "p-1"}) {
			t.Errorf("elastic: %v", got)
		}
	})
}

// A request for offers that gets no answer is repeated, with growing pauses.
func TestAskGoesOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{})
		tf.testMachines.err = &driver.Error{Kind: driver.ErrUnavailable}
		time.AfterFunc(time.Hour, func() {
			tf.testMachines.lock.Lock()
			defer tf.testMachines.lock.Unlock()
			tf.testMachines.err = nil
		})
		began := time.Now()
		if _, err := tf.renter.ask(); err != nil || time.Since(began) < time.Hour || time.Since(began) > time.Hour+time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		tf.testMachines.err = &driver.Error{Kind: driver.ErrNoOffers}
		if _, err := tf.renter.ask(); err == nil {
			t.Error("an answer is not taken for one")
		}
	})
}

// A member that is over stays as long as a task can only run there.
func TestAPinnedTaskKeepsItsMember(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Elastic: true, Most: 1})
		m := tf.put(Ready)[0]
		tf.locked(func() { tf.Tasks.Take(m.Slots, 0) })
		tf.submitTo(t, m, scheduler.Target{})
		tf.locked(func() {
			m.enter(Lost, errLost)
			tf.scaler.trim()
			if len(tf.Members()) != 1 {
				t.Error("it is removed")
			}
			tf.Tasks.Dispatch()
			tf.scaler.trim()
			if len(tf.Members()) != 0 {
				t.Error("it stays after the task has failed")
			}
		})
	})
}

// A fleet that is not elastic keeps the members of an earlier program.
func TestAResumedFleetKeepsItsSize(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 1})
		tf.put(Ready, Ready, Ready)
		tf.Watch(false)
		tf.locked(tf.scaler.rescale)
		time.Sleep(2 * time.Hour)
		if got := tf.names(); !slices.Equal(got, []string{"p-0", "p-1", "p-2"}) {
			t.Errorf("%v", got)
		}
	})
}

// If a member is given up during its launch, its machine is ended.
func TestAMachineThatCameTooLate(t *testing.T) {
	tf := newTest(t, Config{Least: 1})
	m := tf.put(Terminated)[0]
	m.live(driver.Instance{ID: "i-late"}, nil)
	if got := tf.ends(); !slices.Equal(got, []string{"i-late"}) {
		t.Errorf("ended %v", got)
	}
}

// Tasks with units of their own need as many members as they can be packed on, beside tasks in slots.
func TestMembersForUnits(t *testing.T) {
	for _, tt := range []struct {
		d            scheduler.Demand
		slots, units int
		want         int
	}{
		{scheduler.Demand{}, 1, 8, 0},
		{scheduler.Demand{Tasks: 7}, 3, 0, 3},
		{scheduler.Demand{Units: map[int]int{1: 8}}, 1, 8, 1},
		{scheduler.Demand{Units: map[int]int{1: 9}}, 1, 8, 2},
		{scheduler.Demand{Units: map[int]int{8: 3}}, 1, 8, 3},
		{scheduler.Demand{Units: map[int]int{5: 3}}, 1, 8, 3},
		{scheduler.Demand{Units: map[int]int{5: 2, 3: 2, 1: 1}}, 1, 8, 3},
		{scheduler.Demand{Units: map[int]int{3: 5}}, 1, 8, 3},
		{scheduler.Demand{Units: map[int]int{3: 5, 2: 2}}, 1, 8, 3},
		{scheduler.Demand{Units: map[int]int{4: 1, 2: 3}}, 1, 8, 2},
		{scheduler.Demand{Units: map[int]int{1: 8}, Tasks: 1}, 1, 8, 2},
		{scheduler.Demand{Units: map[int]int{1: 4}, Tasks: 5}, 8, 8, 2},
		{scheduler.Demand{Units: map[int]int{1: 4}, Tasks: 4}, 8, 8, 1},
		{scheduler.Demand{Units: map[int]int{1: 4}, MostUnits: 2}, 1, 8, 2}, // they have fewer than was expected
		{scheduler.Demand{Units: map[int]int{4: 2}, MostUnits: 2}, 1, 2, 2}, // another one may have more
	} {
		if got := membersFor(tt.d, tt.slots, tt.units); got != tt.want {
			t.Errorf("%+v with %d slots and %d units: %d members; want %d", tt.d, tt.slots, tt.units, got, tt.want)
		}
	}
}

// An elastic fleet gets one member for as many tasks as it has devices for. A task that wants more than a member can have
// is refused.
func TestAnElasticFleetCountsUnits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Elastic: true, Most: 3, Slots: 1, Units: Units{Expected: 4, Most: 4}})
		tf.Watch(false)
		for range 5 {
			tf.submitUnits(t, 1)
		}
		time.Sleep(time.Second)
		tf.locked(func() {
			if n := len(tf.Members()); n != 2 {
				t.Errorf("%d members", n)
			}
			if err := tf.Tasks.Impossible(scheduler.Target{}, 5); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "a task asks for 5 of its own, and any node has 4 at most") {
				t.Errorf("%v", err)
			}
		})
	})
}
