package training

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/checkpoint"
	"github.com/gputrain/gputrain/internal/gang"
	"github.com/gputrain/gputrain/internal/launcher"
	"github.com/gputrain/gputrain/internal/rootcause"
	"github.com/gputrain/gputrain/internal/stacks"
	"github.com/gputrain/gputrain/internal/steps"
	"github.com/gputrain/gputrain/providers/driver"
)

// The last keptOutput bytes of a share's output are searched for the cause of a failure.
const keptOutput = 64 << 10

// progress takes what a share reports.
type progress struct {
	track *gang.Track // nil for a check
	share int
	// keeper hears of the steps. It may be nil.
	keeper *checkpoint.Keeper

	mu    sync.Mutex
	last  []byte // of its output
	steps map[int]int64
	heard time.Time // when it last printed or reported something
}

// Step is for the attempt.
func (p *progress) Step(s steps.Step) {
	p.mu.Lock()
	if p.steps == nil {
		p.steps = map[int]int64{}
	}
	p.steps[s.Rank], p.heard = max(p.steps[s.Rank], s.N), time.Now()
	p.mu.Unlock()
	if p.keeper != nil {
		p.keeper.Reported(s.N)
	}
	if p.track != nil {
		p.track.Step(p.share, s)
	}
}

// Output is for the attempt.
func (p *progress) Output(b []byte) {
	p.mu.Lock()
	p.last, p.heard = append(p.last, b[max(0, len(b)-keptOutput):]...), time.Now()
	if len(p.last) > 2*keptOutput {
		p.last = append(p.last[:0], p.last[len(p.last)-keptOutput:]...)
	}
	p.mu.Unlock()
	if p.track != nil {
		p.track.Output(p.share)
	}
}

// tell adds to the evidence on a share the last of what it has printed, and the last step of each of its ranks.
func (p *progress) tell(f *rootcause.Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.Output, f.Steps, f.Heard = string(p.last), maps.Clone(p.steps), p.heard
	if n, ok := f.Steps[-1]; ok && len(f.Ranks) == 1 {
		f.Steps[f.Ranks[0]] = max(f.Steps[f.Ranks[0]], n)
	}
	delete(f.Steps, -1)
}

// ranks returns the ranks of the processes of a share.
func (t *Config) ranks(share int) (ranks []int) {
	each := t.Nodes * t.Processes / t.Shares()
	for i := range each {
		ranks = append(ranks, share*each+i)
	}
	return ranks
}

// Stacks is for the gang.
func (t *Training) Stacks(ctx context.Context, e *gang.Attempt) map[int]string {
	if t.Program.Function != "" {
		return nil
	}
	places := t.Shares()
	if t.Launcher == launcher.MPI { // the processes of its one share are on all nodes
		places = t.Nodes
	}
	all := make([]string, places)
	var asked sync.WaitGroup
	for i := range all {
		n := e.Nodes[i*len(e.Nodes)/places].(Node)
		if n.Context().Err() != nil || !n.IsUp() {
			continue
		}
		match := markName + "=" + t.mark()
		if t.Launcher != launcher.MPI {
			match = "GPUTRAIN_SCRATCH=" + n.Supervisor().Scratch(t.attemptID(e.Number, i))
		}
		asked.Go(func() { all[i] = stacks.Dump(ctx, n, match) })
	}
	asked.Wait()
	found := map[int]string{}
	for i, text := range all {
		switch {
		case text == "":
		case t.Launcher == launcher.MPI:
			found[0] += fmt.Sprintf("node %d of the gang:\n%s\n", i, text)
		default:
			found[i] = text
		}
	}
	t.mu.Lock()
	t.stacks = found
	t.mu.Unlock()
	return found
}

// Order is for the gang.
func (t *Training) Order(e *gang.Attempt, failures []gang.Failure) []gang.Failure {
	if i := slices.IndexFunc(failures, func(f gang.Failure) bool { return f.Final && f.Share < 0 }); i > 0 {
		failures = append([]gang.Failure{failures[i]}, slices.Delete(slices.Clone(failures), i, i+1)...)
	}
	if len(failures) > 0 && failures[0].Final && failures[0].Share < 0 {
		return failures // whatever else has failed, this ends it
	}
	j := judge{t, e}
	given, of := j.evidence(failures)
	verdicts := rootcause.Order(given)
	if len(verdicts) == 0 {
		return failures
	}
	used := map[int]bool{}
	var ordered []gang.Failure
	for n, v := range verdicts {
		i := -1
		if v.Index >= 0 {
			i = of[v.Index]
		}
		var f gang.Failure
		switch {
		case n > 0 && i < 0: // one that runs, and is only idle
			continue
		case i >= 0 && used[i]:
			continue // mpirun's, whose process on another node was the root
		case i >= 0:
			f, used[i] = failures[i], true
		case v.Index < 0: // the gang as a whole
			f = j.untold(v, failures)
		case v.Succeeded:
			f = gang.Failure{Share: v.Index, At: v.At, Why: &attempt.Failure{Cause: attempt.Exit, ExitCode: 0}, Err: errors.New(v.Reason)}
			if v.Rule == rootcause.Waited {
				f.Kind, f.Err = gang.Stalled, stalledError(v.Reason)
			}
		default: // a process that runs, and for which the others waited
			f = gang.Failure{Kind: gang.Stalled, Share: min(v.Index, t.Shares()-1), Err: stalledError("the others waited for it")}
		}
		ordered = append(ordered, j.judged(f, v))
	}
	for i, f := range failures {
		if used[i] {
			continue
		}
		if root := &ordered[0]; isIdle(f) && root.Kind == gang.Stalled {
			root.Kind, root.Err = gang.Idle, join(f.Err, verdicts[0].Reason)
			continue
		}
		ordered = append(ordered, f)
	}
	return ordered
}

// isIdle reports whether a failure is that of accelerators on several nodes. It says nothing of who waits for whom.
func isIdle(f gang.Failure) bool { return f.Kind == gang.Idle && f.Node < 0 }

func stalledError(text string) error {
	return &driver.Error{Op: "train", Kind: driver.ErrStalled, Err: errors.New(text)}
}

// mostStacks bounds the text of all stacks.
const mostStacks = 64 << 10

// untold returns the failure of a gang that nothing tells the root cause of. It has all stacks.
func (j judge) untold(v rootcause.Verdict, failures []gang.Failure) gang.Failure {
	f := gang.Failure{Kind: gang.Stalled, Node: -1, Share: -1, Rank: -1, Step: j.e.Last, At: failures[0].At, Err: stalledError(v.Reason)}
	if first := failures[0]; first.Kind == gang.Stalled && first.Err != nil {
		f.Err = join(first.Err, v.Reason)
	}
	j.t.mu.Lock()
	stacks := j.t.stacks
	j.t.mu.Unlock()
	var all strings.Builder
	for _, share := range slices.Sorted(maps.Keys(stacks)) {
		_, node := j.t.nodeOf(j.e, share)
		text := stacks[share]
		if most := mostStacks / len(stacks); len(text) > most {
			text = strings.ToValidUTF8(text[:most], "") + " [cut]"
		}
		fmt.Fprintf(&all, "%s/%d on node %d of the gang:\n%s\n", j.t.Name, share, node, text)
	}
	f.Stack = all.String()
	return f
}

// judge judges the failures of an attempt.
type judge struct {
	t *Training
	e *gang.Attempt
}

// judged returns a failure with what is known of its cause.
func (j judge) judged(f gang.Failure, v rootcause.Verdict) gang.Failure {
	if f.Share >= 0 {
		f.Rank = v.Rank
		if f.Stack == "" {
			f.Stack = v.Stacks[v.Rank]
		}
	}
	f.Node = v.Node
	for _, s := range v.Steps {
		f.Step = max(f.Step, s)
	}
	if why := f.Why; why != nil && (why.ExitCode != v.ExitCode || why.Signal != v.Signal) && v.ExitCode+len(v.Signal) >= 0 {
		known := *why // the launcher's own exit code says nothing
		known.ExitCode, known.Signal = v.ExitCode, v.Signal
		if v.Signal != "" && known.Cause == attempt.Exit {
			known.Cause = attempt.Signal
		}
		f.Why = &known
	}
	switch {
	case v.Peer:
		f.Kind = gang.Peer
	case f.Kind == gang.Own && v.Fault != nil && v.Fault.Ends:
		f.Kind = gang.Accelerator
		f.Err = &driver.Error{Op: fmt.Sprintf("node %d", j.e.Nodes[v.Node].(Node).Rank()), Kind: driver.ErrAccelerator, Err: errors.New(v.Fault.Text)}
	}
	if v.Reason != "" && (v.Peer || v.Rule == rootcause.Waited && f.Share >= 0 && !v.Succeeded) {
		f.Err = join(f.Err, v.Reason)
	}
	if v.Hint != "" {
		f.Err = join(f.Err, v.Hint)
	}
	return f
}

// join adds text to an error, which may be nil.
func join(err error, text string) error {
	if err == nil {
		return errors.New(text)
	}
	return fmt.Errorf("%w; %s", err, text)
}

// evidence returns what is known of all shares of an attempt, and the failures that they are, or -1 for those that run.
func (j judge) evidence(failures []gang.Failure) (given []rootcause.Failure, of []int) {
	t, e := j.t, j.e
	t.mu.Lock()
	shares, progresses, stacks := slices.Clone(t.shares), t.progress, t.stacks
	t.mu.Unlock()
	for share, one := range shares {
		_, node := t.nodeOf(e, share)
		f := rootcause.Failure{Node: node, Ranks: t.ranks(share)}
		if share < len(progresses) && progresses[share] != nil {
			progresses[share].tell(&f)
		}
		if f.Succeeded = !one.Ended.IsZero() && one.Failure == nil; f.Succeeded {
			f.At = one.Ended
		}
		if stack := stacks[share]; stack != "" {
			f.Stacks = map[int]string{}
			for _, rank := range f.Ranks {
				f.Stacks[rank] = stack
			}
		}
		given, of = append(given, f), append(of, -1)
	}
	for i, failure := range failures {
		if failure.Share < 0 {
			f := rootcause.Failure{Node: failure.Node, At: failure.At, Lost: failure.Kind == gang.NodeLost}
			if failure.Kind == gang.Accelerator {
				f.Faults = []rootcause.Fault{{At: failure.At, Ends: true, Text: failure.Err.Error()}}
				f.Stalled = true
			}
			for share := range shares {
				if one := &given[share]; isIdle(failure) && !one.Succeeded {
					one.Stalled, one.At = true, failure.At
				}
			}
			given, of = append(given, f), append(of, i)
			continue
		}
		f := &given[failure.Share]
		of[failure.Share] = i
		f.At, f.Lost, f.Stalled = failure.At, failure.Kind == gang.NodeLost, failure.Kind == gang.Stalled
		if failure.Why != nil && failure.Kind == gang.Own {
			f.Why, f.Faults = failure.Why, t.devices.faultsOf(e.Nodes[failure.Node].(Node), e.From)
		}
	}
	if len(shares) > 0 && t.Launcher == launcher.MPI && t.Program.Function == "" { // else mpirun has never been started
		given, of = j.daemons(given, of)
	}
	return given, of
}

// daemons adds to the evidence on mpirun, the one share, on which nodes its processes are.
func (j judge) daemons(given []rootcause.Failure, of []int) ([]rootcause.Failure, []int) {
	t, e := j.t, j.e
	ranks := given[0].Ranks
	given[0].Ranks = ranks[:t.Processes]
	for node := 1; node < len(e.Nodes); node++ {
		f := rootcause.Failure{Node: node, Ranks: ranks[node*t.Processes:][:t.Processes], Daemon: true, At: given[0].At, Stacks: given[0].Stacks}
		if of[0] >= 0 { // what runs has no fault: its node has, by itself
			f.Faults = t.devices.faultsOf(e.Nodes[node].(Node), e.From)
		}
		given = append(given, f)
		of = append(of, of[0])
	}
	return given, of
}
