package observe

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
)

// A feed makes entries, one a second unless it says otherwise.
type feed struct {
	s   *state
	now time.Time
	seq int64
}

func newFeed() *feed {
	return &feed{s: newState(0), now: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}
}

func (f *feed) event(ev gputrain.Event) {
	f.now = f.now.Add(time.Second)
	f.seq++
	ev.Time, ev.Pool = f.now, "p"
	f.s.take(Entry{Seq: f.seq, Event: &ev})
}

func (f *feed) node(rank int, id string, state gputrain.NodeState, err error) {
	f.event(gputrain.Event{Kind: gputrain.EventNode, Node: rank, At: gputrain.Node{Rank: rank, ID: id}, State: state.String(), Err: err})
}

func (f *feed) task(state, id string, rank int, err error) {
	ev := gputrain.Event{Kind: gputrain.EventTask, State: state, Task: id, Name: id, Node: rank, Attempt: 1, Err: err}
	if state == "done" || state == "failed" {
		ev.Ended, ev.Elapsed = &gputrain.AttemptEnd{}, time.Second
	}
	f.event(ev)
}

// Values in the names of tasks are no numbers that count them.
func TestGroupsAreThoseOfNames(t *testing.T) {
	f := newFeed()
	f.node(0, "a", gputrain.NodeReady, nil)
	for _, name := range []string{"lr-0.06", "lr-0.01", "lr-1e-05", "lr-1e-06", "trial 1", "trial 2"} {
		f.task("started", name, 0, nil)
		f.task("done", name, 0, nil)
	}
	got := map[string]int{}
	for _, g := range f.s.run(f.now).Groups {
		got[g.Name] += g.Done
	}
	if want := map[string]int{"lr-0.06": 1, "lr-0.01": 1, "lr-1e-05": 1, "lr-1e-06": 1, "trial": 2}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A rank can be that of several machines, and a machine can get another rank.
func TestNodesOfARank(t *testing.T) {
	f := newFeed()
	for rank, id := range []string{"a", "b", "c"} {
		f.node(rank, "", gputrain.NodeLaunching, nil)
		f.node(rank, "", gputrain.NodeLaunching, errors.New("an offer had no room"))
		f.node(rank, id, gputrain.NodeConnecting, nil)
		f.node(rank, id, gputrain.NodeReady, nil)
	}
	f.node(1, "b", gputrain.NodeLost, errors.New("it vanished"))
	f.node(1, "", gputrain.NodeLaunching, nil) // another one takes its place
	f.node(1, "d", gputrain.NodeReady, nil)
	f.node(0, "a", gputrain.NodeTerminated, nil) // the pool becomes smaller
	f.node(0, "c", gputrain.NodeReady, nil)      // and the last gets the rank
	r := f.s.run(f.now)
	got := ""
	for _, n := range r.Nodes {
		got += fmt.Sprintf("%d %s %s %q; ", n.Rank, n.ID, n.State, n.Err)
	}
	if want := `0 c ready ""; 1 d ready ""; 0 a terminated ""; 1 b lost "it vanished"; `; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	keys := map[string]bool{}
	for _, n := range r.Nodes {
		keys[n.Key] = true
	}
	if len(keys) != 4 || r.Counts.Ready != 2 || r.Counts.Gone != 2 {
		t.Errorf("keys %v, counts %+v", keys, r.Counts)
	}
	if len(r.Failures) != 1 || r.Failures[0].Err != "it vanished" || r.Failures[0].Kind != "node" {
		t.Errorf("failures: %+v", r.Failures)
	}
}

// Of many tasks the last are kept, all that have not ended, and the counts of all.
func TestManyTasks(t *testing.T) {
	f := newFeed()
	f.node(0, "a", gputrain.NodeReady, nil)
	f.task("queued", "waits", -1, nil)
	for i := range 3 * keptEnded {
		id := fmt.Sprintf("t-%d", i)
		f.task("queued", id, -1, nil)
		f.task("started", id, 0, nil)
		if i%100 == 0 {
			f.task("failed", id, 0, errors.New("it failed"))
		} else {
			f.task("done", id, 0, nil)
		}
	}
	r := f.s.run(f.now)
	if r.Counts.Done != 3*keptEnded*99/100 || r.Counts.Failed != 3*keptEnded/100 || r.Counts.Waiting != 1 || r.Counts.Running != 0 {
		t.Errorf("counts: %+v", r.Counts)
	}
	if n := len(r.Tasks); n < keptEnded || n > 2*keptEnded+1 || r.Tasks[0].ID != "waits" || r.Tasks[n-1].ID != fmt.Sprintf("t-%d", 3*keptEnded-1) {
		t.Errorf("%d tasks, from %s to %s", n, r.Tasks[0].ID, r.Tasks[n-1].ID)
	}
	if len(f.s.byID["p"].tasks) > 2*keptEnded+1 {
		t.Errorf("%d tasks are in memory", len(f.s.byID["p"].tasks))
	}
	if len(r.Groups) != 2 && len(r.Groups) != 1 || r.Groups[0].Name != "t" || r.Groups[0].Done != r.Counts.Done || r.Groups[0].Attempts != 3*keptEnded {
		t.Errorf("groups: %+v", r.Groups)
	}
	if n := r.Nodes[0]; n.Ended != 3*keptEnded || n.BusyTime != 3*keptEnded*time.Second || len(n.Tasks) != 0 {
		t.Errorf("the node: %d attempts, %v, %v", n.Ended, n.BusyTime, n.Tasks)
	}
	if len(r.Failures) > keptFailures {
		t.Errorf("%d failures", len(r.Failures))
	}
	for i := range 2 * keptGroups {
		f.task("done", fmt.Sprintf("name-%d-x", i), -1, nil)
	}
	if r := f.s.run(f.now); len(r.Groups) > keptGroups+1 {
		t.Errorf("%d groups", len(r.Groups))
	}
}

// A task's rate is that of the last ten seconds; its end is told once something is known, and not if it stalls.
func TestETA(t *testing.T) {
	f := newFeed()
	f.node(0, "a", gputrain.NodeReady, nil)
	f.task("started", "t", 0, nil)
	task := func() Task { return f.s.run(f.now).Tasks[0] }
	for i := range int64(30) {
		f.event(gputrain.Event{Kind: gputrain.EventStep, Task: "t", Step: gputrain.Step{N: 1 + i, Of: 1000}})
		_, known := task().ETA(f.now)
		if want := i >= 9; known != want { // a hundredth
			t.Fatalf("after %d steps it is known: %v", i+1, known)
		}
	}
	if at, _ := task().ETA(f.now); math.Abs(at.Sub(f.now).Seconds()-970) > 1 {
		t.Errorf("970 steps, one a second, last %v", at.Sub(f.now))
	}
	for i := range int64(15) { // it becomes faster
		f.event(gputrain.Event{Kind: gputrain.EventStep, Task: "t", Step: gputrain.Step{N: 100 + 10*i, Of: 1000}})
	}
	if got := task().PerSecond; math.Abs(got-10) > 0.1 {
		t.Errorf("the rate is %v", got)
	}
	if task().IsStalled(f.now.Add(15*time.Second)) || !task().IsStalled(f.now.Add(16*time.Second)) {
		t.Error("15 seconds without a step")
	}
	if _, known := task().ETA(f.now.Add(20 * time.Second)); known {
		t.Error("the end of what has stalled is known")
	}
	f.event(gputrain.Event{Kind: gputrain.EventStep, Task: "t", Step: gputrain.Step{N: 5, Of: 1000}}) // it begins anew
	if task().PerSecond != 0 {
		t.Error("a step back has a rate")
	}
}

// Costs go on between two events, and stop with the pool.
func TestCostsGoOn(t *testing.T) {
	f := newFeed()
	f.event(gputrain.Event{Kind: gputrain.EventPool, State: "opening", Spec: &gputrain.Spec{BudgetUSD: 20, Concurrency: 4}})
	f.node(0, "a", gputrain.NodeReady, nil)
	f.event(gputrain.Event{Kind: gputrain.EventCost, Cost: &gputrain.Cost{USD: 1, HourlyUSD: 6, AtMostUSD: 3, Bounded: true}})
	r := f.s.run(f.now.Add(time.Hour))
	if r.SpentUSD != 7 || r.HourlyUSD != 6 || r.BudgetUSD != 20 || r.AtMostUSD != 9 || !r.Bounded || r.Counts.Slots != 4 {
		t.Errorf("$%v, $%v/h of $%v, at most $%v, %v, %+v", r.SpentUSD, r.HourlyUSD, r.BudgetUSD, r.AtMostUSD, r.Bounded, r.Counts)
	}
	f.event(gputrain.Event{Kind: gputrain.EventCost, Cost: &gputrain.Cost{USD: 2, HourlyUSD: 6}})
	if r := f.s.run(f.now); r.Bounded || r.AtMostUSD != 0 {
		t.Errorf("it is bounded: %v, $%v", r.Bounded, r.AtMostUSD)
	}
	f.event(gputrain.Event{Kind: gputrain.EventPool, State: "closed", Cost: &gputrain.Cost{USD: 8, Bounded: true, Nodes: []gputrain.NodeCost{{ID: "a", USD: 8}}}})
	if r := f.s.run(f.now.Add(time.Hour)); r.SpentUSD != 8 || r.HourlyUSD != 0 || r.Nodes[0].SpentUSD != 8 {
		t.Errorf("after the end $%v, $%v/h, node $%v", r.SpentUSD, r.HourlyUSD, r.Nodes[0].SpentUSD)
	}
}

// Offers that refuse are no failures: the pool goes on with the next one.
func TestOffersThatRefuse(t *testing.T) {
	f := newFeed()
	offer := func(name, state string, err error) {
		f.event(gputrain.Event{Kind: gputrain.EventOffer, State: state, Offer: &gputrain.Offer{Provider: "cloud", ID: name, InstanceType: name}, Err: err})
	}
	offer("a", "trying", nil)
	offer("b", "trying", nil)
	offer("a", "refused", errors.New("no room"))
	offer("b", "taken", nil)
	offer("b", "refused", errors.New("no room for more"))
	offer("a", "trying", nil)
	got := ""
	r := f.s.run(f.now)
	for _, o := range r.Offers {
		got += o.InstanceType + " " + o.State + " " + o.Err + "; "
	}
	if want := "a refused no room; b taken no room for more; a trying ; "; got != want || len(r.Failures) > 0 {
		t.Errorf("got %q, %v", got, r.Failures)
	}
}

// The samples of a long time are few, and from all of it.
func TestLoadOfALongTime(t *testing.T) {
	f := newFeed()
	f.node(0, "a", gputrain.NodeReady, nil)
	began := f.now
	for range 20_000 {
		f.event(gputrain.Event{Kind: gputrain.EventUsage, State: "sample", Usage: gputrain.Usage{Accelerators: []gputrain.AcceleratorSample{{Utilization: 40}, {Utilization: 60}, {Utilization: math.NaN()}}}})
	}
	load := f.s.run(f.now).Nodes[0].Load
	if n := len(load); n < keptLoad/2 || n > keptLoad || load[0].At.Sub(began) > time.Minute || f.now.Sub(load[n-1].At) > 5*time.Minute || load[n/2].Accelerators != 50 || load[0].CPU != -1 {
		t.Errorf("%d samples, from %v to %v: %+v", n, load[0].At.Sub(began), f.now.Sub(load[n-1].At), load[n/2])
	}
}

// A Run does not change after it was returned, whatever comes.
func TestRunDoesNotChange(t *testing.T) {
	f := newFeed()
	f.s.lines = 5
	f.node(0, "a", gputrain.NodeReady, nil)
	f.task("started", "t", 0, nil)
	for i := range 7 {
		f.seq++
		f.s.take(Entry{Seq: f.seq, Line: &gputrain.Line{Pool: "p", Task: "t", Text: fmt.Sprint(i)}})
	}
	r := f.s.run(f.now)
	before := fmt.Sprintf("%+v", r)
	for i := range 20 {
		f.s.take(Entry{Seq: f.seq, Line: &gputrain.Line{Pool: "p", Task: "t", Text: fmt.Sprint("more ", i)}})
	}
	f.event(gputrain.Event{Kind: gputrain.EventRetry, Task: "t", Node: 0, Attempt: 1, Err: errors.New("again"), Ended: &gputrain.AttemptEnd{ExitCode: 3}})
	f.task("started", "t", 0, nil)
	f.task("done", "t", 0, nil)
	if after := fmt.Sprintf("%+v", r); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
	if lines := r.Tasks[0].Lines; len(lines) != 5 || lines[0].Text != "2" {
		t.Errorf("lines: %v", lines)
	}
}

// A training is a task whose attempts are the gang's.
func TestTrainingIsATask(t *testing.T) {
	f := newFeed()
	f.node(0, "a", gputrain.NodeReady, nil)
	training := func(state string, attempt int, err error) {
		f.event(gputrain.Event{Kind: gputrain.EventTraining, Name: "line", State: state, Attempt: attempt, Node: -1, Err: err})
	}
	for _, state := range []string{"waiting", "starting", "running"} {
		training(state, 1, nil)
	}
	f.event(gputrain.Event{Kind: gputrain.EventStep, Name: "line", Attempt: 1, Node: 0, Step: gputrain.Step{N: 3, Of: 60}})
	if task := f.s.run(f.now).Tasks[0]; task.State != "started" || task.Step.N != 3 || task.Attempt != 1 || task.Node != "" || f.s.run(f.now).Counts.Running != 1 {
		t.Errorf("it runs: %+v", task)
	}
	training("failing", 1, errors.New("rank 2 failed"))
	training("restarting", 1, nil)
	for _, state := range []string{"waiting", "starting", "running"} {
		training(state, 2, nil)
	}
	training("checkpoint", 2, nil)
	training("done", 2, nil)
	r := f.s.run(f.now)
	if task := r.Tasks[0]; task.State != "done" || len(task.Attempts) != 2 || task.Attempts[0].Err != "rank 2 failed" || task.Attempts[0].Ended.IsZero() || task.Attempt != 2 {
		t.Errorf("it is over: %+v", task)
	}
	if r.Counts.Done != 1 || r.Counts.Retries != 1 || len(r.Failures) != 1 || r.Failures[0].Kind != "training" || len(r.Nodes[0].Tasks) > 0 {
		t.Errorf("counts %+v, failures %+v", r.Counts, r.Failures)
	}
	training("waiting", 1, nil) // the same again
	training("done", 1, errors.New("no node"))
	if r := f.s.run(f.now); len(r.Tasks) != 2 || r.Counts.Failed != 1 || r.Tasks[1].State != "failed" {
		t.Errorf("the second: %+v, %+v", r.Tasks, r.Counts)
	}
}

// A failure is that of the machine that was lost, although another one has its rank by then. A file keeps that.
func TestLossIsBookedToTheNodeThatWasLost(t *testing.T) {
	for _, read := range []bool{false, true} {
		f := newFeed()
		event := f.event
		if read {
			event = func(ev gputrain.Event) {
				text, err := json.Marshal(Entry{Seq: 1, Event: &ev})
				var e Entry
				if err = errors.Join(err, json.Unmarshal(text, &e)); err != nil {
					t.Fatal(err)
				}
				f.event(*e.Event)
			}
		}
		f.node(0, "a", gputrain.NodeReady, nil)
		f.node(1, "other", gputrain.NodeReady, nil)
		lost := gputrain.Node{Rank: 0, ID: "a"}
		event(gputrain.Event{Kind: gputrain.EventTask, State: "started", Task: "t1", Name: "t1", Node: 0, At: lost, Attempt: 1})
		event(gputrain.Event{Kind: gputrain.EventTraining, State: "running", Name: "line", Node: -1, Attempt: 1})
		f.node(0, "a", gputrain.NodeLost, errors.New("it is gone"))
		f.node(0, "", gputrain.NodeLaunching, nil)
		why := errors.New("its node was lost")
		end := &gputrain.AttemptEnd{Cause: gputrain.CauseNodeLost}
		event(gputrain.Event{Kind: gputrain.EventRetry, Task: "t1", Name: "t1", Node: 0, At: lost, Attempt: 1, Err: why, Ended: end, Elapsed: time.Second})
		f.node(0, "b", gputrain.NodeReady, nil)
		event(gputrain.Event{Kind: gputrain.EventTraining, State: "failing", Name: "line", Node: 0, At: lost, Attempt: 1, Err: why})
		event(gputrain.Event{Kind: gputrain.EventTask, State: "failed", Task: "t2", Name: "t2", Node: 0, At: lost, Attempt: 4, Err: why, Ended: end})
		event(gputrain.Event{Kind: gputrain.EventTask, State: "failed", Task: "t3", Name: "t3", Node: 0, At: gputrain.Node{ID: "b"}, Attempt: 1, Err: why, Ended: end})
		event(gputrain.Event{Kind: gputrain.EventTraining, State: "failing", Name: "line", Node: 0, Attempt: 2, Err: why}) // as older files have it
		r := f.s.run(f.now)
		var booked []string
		for _, failure := range r.Failures {
			for _, n := range r.Nodes {
				if n.Key == failure.Node {
					booked = append(booked, failure.Kind+" "+n.ID)
				}
			}
		}
		if want := []string{"node a", "task a", "training a", "task a", "task b", "training b"}; !slices.Equal(booked, want) {
			t.Errorf("read %v: %q, want %q", read, booked, want)
		}
		for _, n := range r.Nodes {
			if want := map[string]int{"a": 1}[n.ID]; n.Ended != want || len(n.Tasks) > 0 {
				t.Errorf("read %v: node %s has ended %d, want %d, and runs %q", read, n.ID, n.Ended, want, n.Tasks)
			}
		}
	}
}

// A task that was counted at first has the times at which it was queued and began.
func TestTaskThatIsReportedLate(t *testing.T) {
	f := newFeed()
	f.node(0, "a", gputrain.NodeReady, nil)
	f.event(gputrain.Event{Kind: gputrain.EventTask, State: "queued", Task: "t1", Node: -1, Elapsed: time.Minute})
	queued := f.now.Add(-time.Minute)
	f.event(gputrain.Event{Kind: gputrain.EventTask, State: "started", Task: "t1", Node: 0, Attempt: 1, Elapsed: time.Second})
	began := f.now.Add(-time.Second)
	r := f.s.run(f.now)
	if task := r.Tasks[0]; !task.Queued.Equal(queued) || !task.Started.Equal(began) || len(task.Attempts) != 1 || !task.Attempts[0].Began.Equal(began) || r.Counts.Running != 1 {
		t.Errorf("%+v, %+v", task, r.Counts)
	}
}

// A line of a phase may come after the event of the phase's end, and is the phase's nevertheless.
func TestLateLine(t *testing.T) {
	f := newFeed()
	f.node(0, "a", gputrain.NodeBootstrapping, nil)
	for _, state := range []string{"started", "done"} {
		f.event(gputrain.Event{Kind: gputrain.EventPhase, Phase: "setup 1/1", State: state, At: gputrain.Node{ID: "a"}})
	}
	f.seq++
	f.s.take(Entry{Seq: f.seq, Line: &gputrain.Line{Time: f.now, Pool: "p", Phase: "setup 1/1", Text: "set up"}})
	if phases := f.s.run(f.now).Phases; len(phases) != 1 || len(phases[0].Lines) != 1 || phases[0].Lines[0].Text != "set up" {
		t.Errorf("%+v", phases)
	}
}
