package fleet

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
)

var errLost = &driver.Error{Kind: driver.ErrNodeLost, Err: errors.New("unreachable")}

// memberOf returns a member whose driver has these capabilities.
func memberOf(t *testing.T, caps driver.Capabilities) *Member {
	return newTest(t, Config{Node: &node.Settings{Capabilities: caps}}).newMember(0)
}

// These failures of a machine would occur again.
func TestFailsAgain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		adopts bool
		had    bool   // a node of this rank was ready
		folder string // what an earlier program left
		why    error
		want   bool
	}{
		{"a refused port", true, false, "", &driver.Error{Kind: driver.ErrUnavailable}, true},
		{"too small", true, false, "", &driver.Error{Kind: driver.ErrNoOffers}, true},
		{"a host key", true, false, "", &driver.Error{Kind: driver.ErrHostKey}, true},
		{"a host key of a node that was ready", true, true, "", &driver.Error{Kind: driver.ErrNodeLost, Err: &driver.Error{Kind: driver.ErrHostKey}}, true},
		{"a login", true, true, "", &driver.Error{Kind: driver.ErrAuth}, true},
		{"a rented machine", false, false, "", &driver.Error{Kind: driver.ErrHostKey}, false},
		{"a host that was a node and may restart", true, true, "", &driver.Error{Kind: driver.ErrUnavailable}, false},
		{"a host of a pool that was attached to", true, false, "/r", &driver.Error{Kind: driver.ErrUnavailable}, false},
		{"a node that was lost", true, false, "", errLost, false},
		{"a connection that was cut", true, false, "", fmt.Errorf("upload: %w", ssh.ErrDisconnected), false},
	} {
		old := memberOf(t, driver.Capabilities{Adopts: tt.adopts})
		old.wasReady = tt.had
		old.Node.Resume(node.Earlier{Folder: tt.folder, Instance: driver.Instance{ID: "gpu1:22"}})
		if got := old.failsAgain(tt.why); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	if memberOf(t, driver.Capabilities{Adopts: true}).failsAgain(&driver.Error{Kind: driver.ErrNoCapacity}) {
		t.Error("a machine that was never had")
	}
}

// Another machine may succeed, unless the user's set-up or the account is the cause.
func TestReplaceable(t *testing.T) {
	for _, tt := range []struct {
		tries   int
		why     error
		certain bool
		want    bool
	}{
		{0, errLost, false, true},
		{0, &driver.Error{Kind: driver.ErrNoCapacity}, false, true},
		{0, &driver.Error{Kind: driver.ErrHostKey}, true, true},
		{0, &driver.Error{Kind: driver.ErrQuota}, false, false},
		{1, &driver.Error{Kind: driver.ErrQuota}, false, true},
		{0, &driver.Error{Kind: driver.ErrAuth}, false, false},
		{0, &driver.Error{Kind: driver.ErrAuth}, true, true},
		{0, &driver.Error{Kind: driver.ErrBootstrap}, false, false},
		{0, &driver.Error{Kind: driver.ErrNodeLost, Err: &driver.Error{Kind: driver.ErrBootstrap}}, false, true},
		{0, &driver.Error{Kind: driver.ErrInvalid}, false, false},
		{0, &driver.Error{Kind: driver.ErrUnsupported}, false, false},
		{0, &driver.Error{Kind: driver.ErrBudget}, false, false},
		{0, &driver.Error{Kind: driver.ErrLedger}, false, false},
		{0, &driver.Error{Kind: driver.ErrFenced}, false, false},
		{0, &driver.Error{Kind: driver.ErrClosed}, false, false},
		{1, errNoOther{errLost}, true, false},
		{0, nil, false, false},
	} {
		if got := replaceable(tt.tries, tt.why, tt.certain); got != tt.want {
			t.Errorf("%v after %d tries, certain %v: %v", tt.why, tt.tries, tt.certain, got)
		}
	}
}

func TestIsFull(t *testing.T) {
	for why, want := range map[error]bool{
		driver.ErrNoCapacity: true, driver.ErrNoOffers: true, driver.ErrQuota: true, driver.ErrAuth: false,
		errors.Join(driver.ErrNoOffers, market.ErrOverpriced): false,
	} {
		if got := isFull(why); got != want {
			t.Errorf("%v: %v", why, got)
		}
	}
}

// A machine that was ready for settledAfter resets the count of replacements.
func TestNextCountsTries(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := newTest(t, Config{Least: 1}).put(Ready)[0]
		m.tries = 2
		if got := m.next(errLost); got != (record{tries: 3, wasReady: true}) {
			t.Errorf("at once: %+v", got)
		}
		time.Sleep(settledAfter)
		if got := m.next(errLost); got != (record{tries: 1, wasReady: true}) {
			t.Errorf("after settledAfter: %+v", got)
		}
	})
}

// While no place has room, waiting for a replacement uses no try, for capacityPatience.
func TestNextWaitsForRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		full := &driver.Error{Kind: driver.ErrNoCapacity}
		m := memberOf(t, driver.Capabilities{})
		m.record = record{tries: 1, wasReady: true}
		began := time.Now()
		for waits := 1; waits < 4; waits++ {
			if m.record = m.next(full); m.record != (record{tries: 1, wasReady: true, waits: waits, waitingSince: began}) {
				t.Fatalf("%+v", m.record)
			}
			time.Sleep(m.pause())
		}
		time.Sleep(capacityPatience)
		if got := m.next(full); got != (record{tries: 2, wasReady: true, waitingSince: began}) {
			t.Errorf("after capacityPatience: %+v", got)
		}
		if got := m.next(errLost); got != (record{tries: 2, wasReady: true}) {
			t.Errorf("a machine that fails: %+v", got)
		}
	})
}

// Refusals by offers are counted until a machine was ready.
func TestNextCountsRefusals(t *testing.T) {
	full := &driver.Error{Kind: driver.ErrNoCapacity}
	m := memberOf(t, driver.Capabilities{})
	m.refused = 7
	if got := m.next(full); got != (record{tries: 1, refused: 7}) {
		t.Errorf("%+v", got)
	}
	if got := m.next(errLost); got != (record{tries: 1}) {
		t.Errorf("a machine that fails: %+v", got)
	}
}

func TestPauses(t *testing.T) {
	var got []time.Duration
	for tries := range 9 {
		got = append(got, record{tries: tries}.pause()/time.Second)
	}
	if want := []time.Duration{0, 0, 5, 10, 20, 40, 60, 60, 60}; !slices.Equal(got, want) {
		t.Errorf("by tries: %v", got)
	}
	got = nil
	for waits := range 9 {
		got = append(got, record{tries: 1, waits: waits}.pause()/time.Second)
	}
	if want := []time.Duration{0, 5, 10, 20, 40, 80, 120, 120, 120}; !slices.Equal(got, want) {
		t.Errorf("by waits: %v", got)
	}
}

// The rank of a lost member gets another machine at once, and then after pauses, until the
// replacements are used up.
func TestALostMemberIsReplaced(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 2, Replacements: 2})
		lost := tf.put(Ready, Ready)[1]
		tf.refusal = &driver.Error{Kind: driver.ErrUnavailable}
		lost.fail(errLost)
		time.Sleep(time.Hour)
		if got := tf.purchases(); len(got) != 2 || got[0].after != 0 || got[1].after != 5*time.Second {
			t.Errorf("rented: %v", got)
		}
		if got := append(tf.states(), tf.stateOf(lost)); !slices.Equal(got, []State{Ready, Failed, Lost}) {
			t.Errorf("%v", got)
		}
		if !slices.Equal(tf.avoids(), []bool{false}) || !slices.Equal(tf.ends(), []string{"i-1"}) {
			t.Errorf("avoided %v, ended %v", tf.avoids(), tf.ends())
		}
	})
}

// One purchase replaces members that are lost at the same time.
func TestReplacementsAreRentedTogether(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 3, Replacements: 1})
		for _, m := range tf.put(Ready, Ready, Ready) {
			m.fail(errLost)
		}
		time.Sleep(time.Second)
		got := tf.purchases()
		if len(got) != 1 || len(got[0].ranks) != 3 {
			t.Errorf("%v", got)
		}
	})
}

// A machine that would fail again is not tried again, if there is another one.
func TestAHostThatFailsAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 1, Replacements: 3, Node: &node.Settings{Capabilities: driver.Capabilities{Adopts: true}}})
		tf.testMachines.err = &driver.Error{Kind: driver.ErrNoOffers}
		why := &driver.Error{Kind: driver.ErrHostKey}
		tf.put(Connecting)[0].fail(why)
		time.Sleep(time.Hour)
		if !slices.Equal(tf.avoids(), []bool{true}) || len(tf.purchases()) != 0 {
			t.Errorf("avoided %v, rented %v", tf.avoids(), tf.purchases())
		}
		tf.locked(func() {
			if got := tf.Members(); len(got) != 1 || !errors.Is(got[0].err, why) {
				t.Errorf("%d members, the first: %v", len(got), got[0].err)
			}
		})
		if len(tf.everyMember()) != 2 {
			t.Error("the end of the pool has nothing to clean")
		}
	})
}

// A machine that has waited in its provider's queue for as long as it may, or that a limit of the account keeps there, is asked for
// elsewhere at once, and there only if the pool waits for capacity: one QueueTimeout is not four.
func TestQueueIsWaitedForOnce(t *testing.T) {
	queues := driver.Capabilities{Queues: true}
	for _, tt := range []struct {
		name      string
		caps      driver.Capabilities
		wait      time.Duration
		why       error
		elsewhere bool // another place has offers
		certain   bool
		bought    int
	}{
		{"no room, nowhere else", queues, 0, &driver.Error{Kind: driver.ErrNoCapacity}, false, true, 0},
		{"no room, and another place", queues, 0, &driver.Error{Kind: driver.ErrNoCapacity}, true, true, 1},
		{"a limit, nowhere else", queues, 0, &driver.Error{Kind: driver.ErrQuota}, false, true, 0},
		{"a limit, and another place", queues, 0, &driver.Error{Kind: driver.ErrQuota}, true, true, 1},
		{"no room, in a pool that waits", queues, 2 * time.Hour, &driver.Error{Kind: driver.ErrNoCapacity}, true, false, 1},
		{"a node that did not start", queues, 0, &driver.Error{Kind: driver.ErrUnavailable}, true, false, 1},
		{"no room, without a queue", driver.Capabilities{}, 0, &driver.Error{Kind: driver.ErrNoCapacity}, true, false, 1},
	} {
		bubble.Test(t, func(t *testing.T) {
			tf := newTest(t, Config{Least: 1, Replacements: 3, MaxOffers: 100, WaitForCapacity: tt.wait, Node: &node.Settings{Capabilities: tt.caps}})
			if !tt.elsewhere {
				tf.testMachines.err = &driver.Error{Kind: driver.ErrNoOffers}
			}
			m := tf.put(Connecting)[0]
			m.Node.Resume(node.Earlier{Instance: driver.Instance{ID: "17"}})
			m.fail(tt.why)
			time.Sleep(time.Minute)
			if !slices.Equal(tf.avoids(), []bool{tt.certain}) || len(tf.purchases()) != tt.bought {
				t.Errorf("%s: avoided %v, rented %v", tt.name, tf.avoids(), tf.purchases())
			}
			if len(tf.purchases()) > 0 && tt.certain && tf.purchases()[0].after != 0 {
				t.Errorf("%s: another place was asked after %v", tt.name, tf.purchases()[0].after)
			}
			if tt.bought == 0 {
				tf.locked(func() {
					if got := tf.Members(); !errors.Is(got[0].err, tt.why) {
						t.Errorf("%s: %v", tt.name, got[0].err)
					}
				})
			}
		})
	}
}

// Once the pool ends, nothing is replaced.
func TestNothingIsReplacedAtTheEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 1, Replacements: 3})
		m := tf.put(Ready)[0]
		tf.end(driver.ErrClosed)
		m.fail(errLost)
		time.Sleep(time.Hour)
		if tf.stateOf(m) != Terminated || len(tf.purchases()) != 0 || len(tf.ends()) != 0 {
			t.Errorf("%v, rented %v, ended %v", tf.stateOf(m), tf.purchases(), tf.ends())
		}
	})
}

// Once the fleet is closed, a node that fails is left to the end of the pool, or to the program that takes the pool up.
func TestNothingIsEndedOnceTheFleetIsClosed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 1, Replacements: 3})
		m := tf.put(Ready)[0]
		tf.locked(tf.Close)
		m.fail(errLost)
		time.Sleep(time.Hour)
		if tf.stateOf(m) != Terminated || len(tf.purchases()) != 0 || len(tf.ends()) != 0 {
			t.Errorf("%v, rented %v, ended %v", tf.stateOf(m), tf.purchases(), tf.ends())
		}
	})
}

// A leaving member is not replaced, nor is one that an elastic fleet does not need.
func TestWhatIsNotNeededIsNotReplaced(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		leaving := newTest(t, Config{Least: 1, Replacements: 3})
		m := leaving.put(Ready)[0]
		leaving.locked(func() { m.leaves = true })
		m.fail(errLost)
		elastic := newTest(t, Config{Elastic: true, Most: 2, Replacements: 3})
		elastic.Watch(false)
		elastic.put(Ready)[0].fail(errLost)
		time.Sleep(time.Hour)
		if len(leaving.purchases()) != 0 || len(elastic.purchases()) != 0 || len(elastic.states()) != 0 {
			t.Errorf("rented %v and %v, left %v", leaving.purchases(), elastic.purchases(), elastic.states())
		}
	})
}

// A rank that never had a machine is given up once MaxOffers offers have refused it one.
func TestMaxOffersEndsATry(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 1, Replacements: 9, MaxOffers: 1})
		tf.refusal = &driver.Error{Kind: driver.ErrNoCapacity}
		tf.Launch(nil)
		time.Sleep(time.Hour)
		if got := tf.purchases(); len(got) != 1 {
			t.Errorf("%v", got)
		}
	})
}

// A task that may only run on a lost machine fails at once, even if the rank gets another machine.
func TestAReplacementStrandsPinnedTasks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tf := newTest(t, Config{Least: 1, Replacements: 1})
		m := tf.put(Ready)[0]
		tf.locked(func() { tf.Tasks.Take(m.Slots, 0) })
		task := tf.submitTo(t, m, scheduler.Target{})
		m.fail(errLost)
		if err := <-task.stranded; !errors.Is(err, driver.ErrNodeLost) {
			t.Errorf("%v", err)
		}
	})
}

// A node that is lost before it was ready counts as failed.
func TestLostBeforeItWasReady(t *testing.T) {
	tf := newTest(t, Config{Least: 1})
	m := tf.put(Bootstrapping)[0]
	m.fail(errLost)
	if got := tf.stateOf(m); got != Failed {
		t.Errorf("%v", got)
	}
}
