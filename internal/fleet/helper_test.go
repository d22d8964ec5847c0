package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/providers/driver"
)

// A purchase is a request for members of some ranks, with its time since the test began.
type purchase struct {
	ranks []int
	after time.Duration
}

// testMachines are the machines of a test, which record how they are used. Tests read that through
// their methods.
type testMachines struct {
	lock    sync.Mutex
	err     error // of candidates
	refusal error // of purchases; if nil, the members stay as they are, coming up
	asked   int   // how often candidates were asked for
	bought  []purchase
	avoided []bool // whether there was a reason
	ended   []string
	began   time.Time
}

func (tm *testMachines) candidates() ([]driver.Offer, error) {
	tm.lock.Lock()
	defer tm.lock.Unlock()
	tm.asked++
	return nil, tm.err
}

func (tm *testMachines) rent(members []*Member, _ []driver.Offer) (left []*Member, refused int, err error) {
	var ranks []int
	for _, m := range members {
		ranks = append(ranks, m.Rank())
	}
	tm.lock.Lock()
	defer tm.lock.Unlock()
	tm.bought = append(tm.bought, purchase{ranks, time.Since(tm.began).Round(time.Second)})
	if tm.refusal == nil {
		return nil, 0, nil
	}
	return members, 1, tm.refusal
}

func (tm *testMachines) avoid(_ driver.Offer, why error) {
	tm.lock.Lock()
	defer tm.lock.Unlock()
	tm.avoided = append(tm.avoided, why != nil)
}

func (tm *testMachines) discard(id string, _ func(error)) {
	tm.lock.Lock()
	defer tm.lock.Unlock()
	tm.ended = append(tm.ended, id)
}

// purchases returns the purchases so far.
func (tm *testMachines) purchases() []purchase {
	tm.lock.Lock()
	defer tm.lock.Unlock()
	return slices.Clone(tm.bought)
}

// ends returns the machines that were ended, in the order of their names.
func (tm *testMachines) ends() []string {
	tm.lock.Lock()
	defer tm.lock.Unlock()
	return slices.Sorted(slices.Values(tm.ended))
}

// avoids returns, for each offer that was avoided, whether there was a reason.
func (tm *testMachines) avoids() []bool {
	tm.lock.Lock()
	defer tm.lock.Unlock()
	return slices.Clone(tm.avoided)
}

// testReports records what a fleet reports.
type testReports struct {
	lock    sync.Mutex
	changes []Change
	notices []string
}

func (r *testReports) Changed(c Change) {
	r.changes = append(r.changes, c)
}

func (r *testReports) Preemption(rank int, what string, _ time.Duration, _ error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.notices = append(r.notices, strconv.Itoa(rank)+" "+what)
}

func (r *testReports) Trouble(string, error) {}

func (r *testReports) Launching(error) {}

func (r *testReports) Offered(driver.Offer, string, error) {}

func (r *testReports) Pending(*Member, string) {}

func (r *testReports) Waiting(why error, since, until time.Time) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.notices = append(r.notices, fmt.Sprintf("waiting for %v of %v: %v", time.Since(since), until.Sub(since), why))
}

// testGuest runs nothing on a member.
type testGuest struct{}

func (testGuest) Phase(string, bootstrap.State, time.Duration, time.Duration) {}
func (testGuest) Progressed(string, bootstrap.Progress)                       {}
func (testGuest) Sending() (transfer.Progress, func(error))                   { return nil, func(error) {} }
func (testGuest) Bootstrapped(bootstrap.Base)                                 {}
func (testGuest) Leased(string, string)                                       {}
func (testGuest) Resume([]supervisor.Found) (bootstrap.Base, bool)            { return bootstrap.Base{}, false }
func (testGuest) Join(bool) error                                             { return nil }
func (testGuest) TakenOver(error) bool                                        { return false }
func (testGuest) Failure(err error) error                                     { return err }
func (testGuest) Close()                                                      {}

// A testFleet is a fleet with the test's own machines and reports.
type testFleet struct {
	*Fleet
	*testMachines
	*testReports
	lock sync.Mutex
	end  context.CancelCauseFunc
}

// newTest returns a fleet without members, and completes c.
func newTest(t *testing.T, c Config) *testFleet {
	tf := &testFleet{testMachines: &testMachines{began: time.Now()}, testReports: &testReports{}}
	c.Context, tf.end = context.WithCancelCause(t.Context())
	var lives, running sync.WaitGroup
	if c.Node == nil {
		c.Node = &node.Settings{}
	}
	c.Node.Provider, c.Node.Go = "acme", lives.Go
	c.Lock, c.Running, c.Reporter, c.Guest = &tf.lock, &running, tf.testReports, func(*Member) Guest { return testGuest{} }
	c.Slots, c.Most, c.MaxOffers = max(c.Slots, 1), max(c.Most, c.Least), cmp.Or(c.MaxOffers, 100)
	tf.Fleet = New(c)
	tf.Fleet.machines = tf.testMachines
	t.Cleanup(func() {
		tf.lock.Lock()
		tf.Close()
		tf.lock.Unlock()
		tf.end(driver.ErrClosed)
		lives.Wait()
		running.Wait()
	})
	return tf
}

// all returns the reported preemptions.
func (r *testReports) all() []string {
	r.lock.Lock()
	defer r.lock.Unlock()
	return slices.Clone(r.notices)
}

// put adds members in these states. Their machines are named by their first ranks.
func (tf *testFleet) put(states ...State) (members []*Member) {
	var machines []node.Earlier
	for i := range states {
		name := "p-" + strconv.Itoa(i)
		machines = append(machines, node.Earlier{Name: name, Instance: driver.Instance{ID: "i-" + strconv.Itoa(i), Labels: map[string]string{"zone": string(rune('a' + i))}}})
	}
	members = tf.Resume(machines)
	tf.lock.Lock()
	defer tf.lock.Unlock()
	for i, m := range members {
		m.enter(states[i], nil)
	}
	return members
}

// locked calls f with the lock held.
func (tf *testFleet) locked(f func()) {
	tf.lock.Lock()
	defer tf.lock.Unlock()
	f()
}

// states returns the members' states, by rank.
func (tf *testFleet) states() (states []State) {
	tf.locked(func() {
		for _, m := range tf.Members() {
			states = append(states, m.state)
		}
	})
	return states
}

func (tf *testFleet) stateOf(m *Member) (s State) {
	tf.locked(func() { s = m.state })
	return s
}

// names returns the names of the members' machines, by rank.
func (tf *testFleet) names() (names []string) {
	tf.locked(func() {
		for rank, m := range tf.Members() {
			if m.Rank() != rank {
				names = append(names, "the rank is wrong of")
			}
			names = append(names, m.Node.Name())
		}
	})
	return names
}

// A testWork is a task whose attempts end when the test ends them.
type testWork struct {
	scheduler.Task
	end      chan scheduler.Failure
	stranded chan error
}

func (w *testWork) Queued() {}
func (w *testWork) Attempt(*scheduler.Node, int) (scheduler.Outcome, <-chan struct{}) {
	return &testOutcome{w, <-w.end}, nil
}
func (w *testWork) Cancelled()                            { w.End(0) }
func (w *testWork) Stranded(_ *scheduler.Node, why error) { w.stranded <- why; w.End(0) }
func (w *testWork) Refused()                              { w.End(0) }

type testOutcome struct {
	w       *testWork
	failure scheduler.Failure
}

func (o *testOutcome) Failure() scheduler.Failure { return o.failure }
func (o *testOutcome) Again(time.Duration) bool   { return false }
func (o *testOutcome) End()                       { o.w.End(0) }

// submit queues a task, which ends with the test at the latest.
func (tf *testFleet) submit(t *testing.T, target scheduler.Target) *testWork {
	return tf.submitTo(t, nil, target)
}

// submitTo is submit for a task that only this member may run, unless m is nil.
func (tf *testFleet) submitTo(t *testing.T, m *Member, target scheduler.Target) *testWork {
	return tf.add(t, m, target, 0)
}

// submitUnits is submit for a task that wants units of its own.
func (tf *testFleet) submitUnits(t *testing.T, units int) *testWork {
	return tf.add(t, nil, scheduler.Target{}, units)
}

func (tf *testFleet) add(t *testing.T, m *Member, target scheduler.Target, units int) *testWork {
	b := tf.Tasks.NewBatch(t.Context(), tf.config.Context)
	w := &testWork{end: make(chan scheduler.Failure, 1), stranded: make(chan error, 1)}
	b.Add(&w.Task, w, 0, 0, target)
	w.WantUnits(units)
	if m != nil {
		w.PinTo(m.Slots)
	}
	b.Submit()
	t.Cleanup(func() {
		select {
		case w.end <- scheduler.None:
		default:
		}
	})
	return w
}
