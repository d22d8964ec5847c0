package gangplans

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/seeds"
)

// judge checks the result of a training.
func (p *plan) judge(g *gang, r gputrain.TrainResult, err error, cancelled bool, sum *seeds.Tally) {
	bad := func(format string, args ...any) {
		p.Errorf("%s: %s; the error is %v", g.name, fmt.Sprintf(format, args...), err)
	}
	count := counter{most: g.training.Restarts}
	var last gputrain.GangAttempt
	ranks := map[string]int{}
	for i, e := range r.Attempts {
		failed, _ := errors.AsType[*gputrain.TrainError](e.Err)
		switch {
		case e.Number != i+1:
			bad("attempt %d has the number %d", i+1, e.Number)
		case e.To.Before(e.From) || e.From.Before(last.To) && !e.From.IsZero():
			bad("attempt %d is from %v to %v, and the one before until %v", e.Number, e.From, e.To, last.To)
		case e.FirstStep > e.LastStep || e.FirstStep == 0 && e.LastStep > 0:
			bad("attempt %d has steps from %d to %d", e.Number, e.FirstStep, e.LastStep)
		case len(e.Nodes) != g.training.Nodes:
			bad("attempt %d has %d nodes", e.Number, len(e.Nodes))
		case e.Err != nil && failed == nil && !(i == len(r.Attempts)-1 && (errors.Is(err, gputrain.ErrClosed) || cancelled)): // it was ended
			bad("attempt %d: %T, %v", e.Number, e.Err, e.Err)
		case failed != nil && (failed.Attempt != e.Number || len(failed.Failures) == 0):
			bad("attempt %d: %+v", e.Number, failed)
		}
		for rank, n := range e.Nodes {
			if before, ok := ranks[n.ID]; ok && before != rank && slices.ContainsFunc(last.Nodes, func(o gputrain.Node) bool { return o.ID == n.ID }) {
				bad("in attempt %d node %s has rank %d, before it was %d", e.Number, n.ID, rank, before)
			}
			ranks[n.ID] = rank
			if slices.ContainsFunc(e.Nodes[:rank], func(o gputrain.Node) bool { return o.ID == n.ID }) {
				bad("attempt %d has node %s twice", e.Number, n.ID)
			}
		}
		g.mu.Lock()
		known := g.attempts[e.Number]
		if known != nil && e.LastStep > known.printed {
			bad("attempt %d has come to step %d, and its processes to %d", e.Number, e.LastStep, known.printed)
		}
		if known != nil && e.From.IsZero() {
			bad("attempt %d was not released, and these of its processes were: %v", e.Number, known.began)
		}
		if known != nil && len(known.began) < g.shares && err == nil && !p.struck(time.Time{}) {
			bad("attempt %d was released in part: %v", e.Number, known.began)
		}
		g.mu.Unlock()
		if count.over && i < len(r.Attempts) {
			bad("attempt %d follows one that was to be the last", e.Number)
		}
		if failed != nil {
			count.failed(e, failed)
			for _, f := range failed.Failures {
				if f.Attempt != e.Number || f.Error() == "" {
					bad("attempt %d has the failure %+v", e.Number, f)
				}
			}
			if failed.Failures[0].Cause == gputrain.CausePeer || failed.Failures[0].Cause == gputrain.CauseCancelled {
				bad("attempt %d has the root cause %v", e.Number, failed.Failures[0])
			}
		}
		if r.Step < e.LastStep {
			bad("step %d, and in attempt %d it was %d", r.Step, e.Number, e.LastStep)
		}
		last = e
	}
	for _, one := range count.causes {
		sum.Add(1, one)
	}
	if len(r.Attempts) > 1 {
		sum.Add(1, "restarted")
	}
	if r.Elapsed < 0 || r.Elapsed > tooLong {
		bad("elapsed %v", r.Elapsed)
	}
	closed := p.closes > 0 && errors.Is(err, gputrain.ErrClosed)
	te, _ := errors.AsType[*gputrain.TrainError](err)
	switch {
	case err == nil:
		sum.Add(1, "trained")
		p.succeeded(g, r, bad)
	case cancelled || closed:
		sum.Add(1, "cancelled")
	case te != nil:
		if len(r.Attempts) == 0 || te.Attempt != last.Number && te.Err == nil {
			bad("it is about attempt %d of %d", te.Attempt, len(r.Attempts))
		}
		noProgress := errors.Is(te.Err, gputrain.ErrNoProgress)
		pools := te.Err != nil && !noProgress // no node for another attempt
		if noProgress != count.fruitless() {
			bad("%d attempts without progress", count.without)
		}
		if !count.over && !pools && len(te.Failures) > 0 && te.Failures[0].Cause != gputrain.CauseNeverStarted {
			bad("it may restart: %+v", count)
		}
		switch {
		case noProgress:
			sum.Add(1, "made no progress")
		case pools:
			sum.Add(1, "had no room")
		default:
			sum.Add(1, "failed")
		}
	default:
		sum.Add(1, "had no room")
		if _, ok := errors.AsType[*gputrain.Error](err); !ok {
			bad("%T", err)
		}
	}
	if usd, known := r.CostUSD.USD(); len(r.Attempts) > 0 && !known || usd < 0 {
		bad("it cost %v", r.CostUSD)
	} else {
		p.cost(usd)
	}
}

// succeeded checks the result of a training that has come to its end.
func (p *plan) succeeded(g *gang, r gputrain.TrainResult, bad func(string, ...any)) {
	last := r.Attempts[len(r.Attempts)-1]
	if last.Err != nil {
		bad("the last attempt failed: %v", last.Err)
	}
	if len(r.Ranks) != g.shares {
		bad("%d results of %d processes", len(r.Ranks), g.shares)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.attempts[last.Number]
	if e == nil || len(e.began) != g.shares || last.LastStep != e.printed {
		bad("attempt %d: %v; it came to step %d", last.Number, e, last.LastStep)
	}
	for i, one := range r.Ranks {
		if one.Index != i || one.Err != nil || one.ExitCode != 0 || one.Attempts != last.Number || !strings.HasPrefix(string(one.Stdout), "begins\n") {
			bad("the result of rank %d is %+v", i, one)
		}
	}
}

// A counter counts failures as the documentation of Training says.
type counter struct {
	most, restarts    int
	without, unstarts int
	best              int64
	over              bool // no attempt may follow
	causes            []string
}

func (c *counter) failed(e gputrain.GangAttempt, why *gputrain.TrainError) {
	cause := why.Failures[0].Cause
	if cause == gputrain.CauseNeverStarted && e.From.IsZero() {
		c.unstarts++
		c.over = c.unstarts == 3
		return
	}
	c.unstarts = 0
	if c.without++; e.LastStep > c.best {
		c.best, c.without = e.LastStep, 0
	}
	switch cause {
	case gputrain.CauseNodeLost:
		c.causes = append(c.causes, "lost a node")
	case gputrain.CauseAccelerator:
		c.causes = append(c.causes, "lost an accelerator")
	case gputrain.CauseStalled:
		c.causes = append(c.causes, "stalled")
		fallthrough
	default:
		c.restarts++
	}
	c.over = c.restarts > c.most || c.fruitless()
}

func (c *counter) fruitless() bool { return c.without >= 3 }

// transitions are the states that follow each state of a training.
var transitions = map[string][]string{
	"waiting": {"starting"}, "starting": {"running", "failing"}, "running": {"failing", "done"}, "failing": {"restarting", "done"}, "restarting": {"waiting"},
}

// states checks the events of the trainings.
func (p *plan) states() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(p.events, func(e gputrain.Event) bool { return e.Kind == gputrain.EventOmitted }) {
		return
	}
	before := map[string]gputrain.Event{}
	for _, e := range p.events {
		if e.Kind != gputrain.EventTraining || e.State == "preflight" {
			continue
		}
		was, known := before[e.Name]
		if !known && e.State != "waiting" || known && !slices.Contains(transitions[was.State], e.State) {
			p.Errorf("%s is %s in attempt %d after %s in attempt %d", e.Name, e.State, e.Attempt, was.State, was.Attempt)
		}
		if want := was.Attempt; known && e.State == "waiting" && e.Attempt != want+1 || known && e.State != "waiting" && e.Attempt != want {
			p.Errorf("%s is %s in attempt %d after %s in attempt %d", e.Name, e.State, e.Attempt, was.State, was.Attempt)
		}
		if failed, ok := errors.AsType[*gputrain.TaskError](e.Err); ok && (e.At.ID != failed.Node.ID || e.Node != failed.Node.Rank) {
			p.Errorf("%s is %s on node %d, %q, since node %d, %q, has failed: %v", e.Name, e.State, e.Node, e.At.ID, failed.Node.Rank, failed.Node.ID, failed)
		}
		before[e.Name] = e
	}
}

// wantEach fails the test if something has not happened, so that nothing is tested.
func wantEach(t *testing.T, sum *seeds.Tally, all ...string) {
	for _, what := range all {
		if sum.Count(what) == 0 {
			t.Errorf("no training %s", what)
		}
	}
}
