package rootcause

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
)

// Order returns the failures of one attempt, the root cause first. The root is the first of these, within each the earliest:
//
//  1. a node that was lost, or whose device had a fault in the minute before;
//  2. out of memory, disk full, and the signals SEGV, BUS, ILL and FPE;
//  3. an end without a word of a peer or of a collective's timeout;
//  4. if a share stalled or a collective timed out: the process that was stopped, then one that had ended with success while
//     the others waited, then the one with the lowest step, one that reported no timeout, one that was elsewhere than the
//     others by its stack, one that alone had said nothing. If none of these sets one apart, the root is no process and no
//     node: its Index, Rank and Node are -1;
//  5. a share that ended with success before the first failure, if all that failed were cut off from a peer; then any end.
//
// The others follow in the order in which they ended. Those to which one of the first three applies are failures of their
// own; the rest are peers, if the root is known. What still runs, or was ended by gputrain, is left out, unless it is the root.
func Order(failures []Failure) []Verdict {
	all := make([]*digest, len(failures))
	for i := range failures {
		all[i] = newDigest(&failures[i], i)
	}
	root := pick(all)
	if root == nil {
		return nil
	}
	root.name(all)
	verdicts := []Verdict{root.Verdict}
	slices.SortStableFunc(all, func(a, b *digest) int { return a.At.Compare(b.At) })
	for _, d := range all {
		if d == root || !d.failed() {
			continue
		}
		d.name(all)
		switch {
		case d.Rule > 0:
		case root.Index >= 0:
			d.Peer, d.Reason = true, "followed from "+root.who()
		default:
			d.Reason = d.end()
		}
		verdicts = append(verdicts, d.Verdict)
	}
	return verdicts
}

// A digest is a failure with what its output says.
type digest struct {
	Verdict
	text     text
	launcher string // that named the process, or empty
	daemon   int    // the node whose daemon mpirun has lost, or -1
}

func newDigest(f *Failure, index int) *digest {
	d := &digest{Verdict: Verdict{Failure: *f, Index: index, Rank: -1, ExitCode: -1}, daemon: -1}
	if len(f.Ranks) == 1 {
		d.Rank = f.Ranks[0]
	}
	output := f.Output
	if f.Why != nil {
		d.ExitCode, d.Signal = f.Why.ExitCode, f.Why.Signal
		if f.Why.Err != nil && (f.Why.Cause == attempt.Function || f.Why.Cause == attempt.Panic) {
			output += "\n" + f.Why.Err.Error()
		}
		if output == "" {
			output = f.Why.Tail
		}
	}
	d.text = readText(output)
	d.Hint = Hint(d.text.all)
	if d.text.torchrun != nil {
		c := d.text.torchrun[0]
		d.launcher, d.Rank, d.ExitCode, d.Signal = "torchrun", c.Rank, c.ExitCode, ""
		if c.Rank < 0 && c.LocalRank < len(f.Ranks) { // only its log line is left
			d.Rank = f.Ranks[c.LocalRank]
		}
		if c.ExitCode < 0 {
			d.ExitCode, d.Signal = -1, signalName(-c.ExitCode)
		}
	}
	if m := d.text.mpirun; m.Rank >= 0 {
		d.launcher, d.Rank, d.ExitCode, d.Signal = "mpirun", m.Rank, m.ExitCode, signalName(m.Signal)
	} else if m.LostDaemon > 0 {
		d.daemon = m.LostDaemon
	}
	return d
}

// name gives a process that mpirun has named the node on which it ran.
func (d *digest) name(all []*digest) {
	for _, other := range all {
		if d.launcher == "mpirun" && slices.Contains(other.Ranks, d.Rank) {
			d.Node = other.Failure.Node
		}
	}
}

// failed reports whether the share has failed by itself.
func (d *digest) failed() bool { return d.Why != nil || d.Lost || d.Stalled }

// fatal are signals that a process gets for what it did itself.
var fatal = []string{"SEGV", "BUS", "ILL", "FPE"}

// own returns which of the rules 1 to 3 applies to a failure, or 0.
func (d *digest) own() (rule int, reason string) {
	if d.Lost || d.Why != nil && d.Why.Cause == attempt.NodeLost {
		return 1, "its node was lost"
	}
	if x := d.fault(); x != nil {
		d.Fault = x
		return 1, "its device failed: " + x.Text
	}
	if d.Why == nil {
		return 0, ""
	}
	switch {
	case d.Why.Cause == attempt.OutOfMemory:
		return 2, "out of memory"
	case errors.Is(d.Why.Err, syscall.ENOSPC) || d.text.full:
		return 2, "the disk is full"
	case slices.Contains(fatal, d.Signal):
		return 2, "signal " + d.Signal
	case slices.Contains([]attempt.Cause{attempt.Timeout, attempt.Cancelled}, d.Why.Cause) || d.Stalled:
		return 0, "" // ended from outside
	case d.Daemon && d.Signal == "":
		return 0, "" // its end says nothing: it ends so when mpirun does
	case d.daemon >= 0 || d.text.peer && !d.text.ownError && d.launcher != "mpirun" && !d.killed():
		return 0, ""
	}
	return 3, d.end()
}

// killed reports whether a signal ended the process, other than the one by which programs end themselves.
func (d *digest) killed() bool { return d.Signal != "" && d.Signal != "ABRT" }

// end describes how the process ended.
func (d *digest) end() string {
	switch {
	case d.Signal != "":
		return "signal " + d.Signal
	case d.text.last != "":
		return d.text.last
	case d.Why != nil && d.Why.Err != nil:
		return shortened(d.Why.Err.Error())
	case d.ExitCode >= 0:
		return fmt.Sprintf("exit code %d", d.ExitCode)
	case d.Stalled:
		return "it made no progress"
	}
	return "it failed first"
}

// who names the process of a failure, or its node.
func (v *Verdict) who() string {
	if v.Rank >= 0 {
		return fmt.Sprintf("rank %d", v.Rank)
	}
	return fmt.Sprintf("node %d", v.Node)
}

// pick returns the root cause of all failures, or nil if there is none.
func pick(all []*digest) *digest {
	var first *digest
	for _, d := range all {
		rule, reason := d.own()
		if d.Rule, d.Reason = rule, reason; rule > 0 && (first == nil || d.earlier(first)) {
			first = d
		}
	}
	if first != nil {
		return first
	}
	if d := hung(all); d != nil {
		return d
	}
	if d := left(all); d != nil {
		return d
	}
	for _, d := range all {
		if d.failed() && (first == nil || d.At.Before(first.At)) {
			first = d
		}
	}
	if first == nil {
		return nil
	}
	first.Rule, first.Reason = 5, first.end()
	// mpirun knows whose daemon was lost, even if nothing else is known of that node.
	if first.daemon >= 0 {
		first.Node, first.Reason = first.daemon, "mpirun has lost its daemon"
	}
	return first
}

// left returns the first share that ended with success before any other failed, or nil. Its peers were cut off from it.
func left(all []*digest) (first *digest) {
	for _, d := range all {
		if d.Succeeded && (first == nil || d.At.Before(first.At)) {
			first = d
		}
	}
	for _, d := range all {
		if first == nil || d.failed() && (d.At.Before(first.At) || !d.text.peer) {
			return nil
		}
	}
	if first != nil {
		first.Rule, first.Reason, first.ExitCode = 5, "it ended with exit code 0, and the others were cut off from it", 0
	}
	return first
}

// earlier reports whether d precedes another failure, if one of the rules 1 to 3 applies to each.
func (d *digest) earlier(other *digest) bool {
	switch mpirun := d.launcher == "mpirun"; {
	case d.Rule != other.Rule:
		return d.Rule < other.Rule
	case d.Rule == 3 && mpirun != (other.launcher == "mpirun"):
		return mpirun // it has seen all processes
	}
	return d.when().Before(other.when())
}

// when returns the time by which a failure is put in order.
func (d *digest) when() time.Time {
	if x := d.fault(); d.Rule == 1 && x != nil {
		return x.At
	}
	return d.At
}

// A process is one of a gang that hangs.
type process struct {
	*digest
	rank    int
	step    int64 // 0: none was reported
	timeout bool  // it reported a timeout
	posture posture
}

// hung returns the process that the others of a gang waited for: nil if none waited, and a digest without a process if nothing
// tells which it was. It applies rule 4.
func hung(all []*digest) *digest {
	if !slices.ContainsFunc(all, func(d *digest) bool { return d.Stalled || d.text.timeout && d.Why != nil }) {
		return nil
	}
	left := processes(all)
	if len(left) == 1 {
		return left[0].blamed("it made no progress")
	}
	reason := "" // of the last rule that told some apart
	narrow := func(why string, keep func(process) bool) {
		if kept := slices.DeleteFunc(slices.Clone(left), func(p process) bool { return !keep(p) }); len(kept) > 0 && len(kept) < len(left) {
			left, reason = kept, why
		}
	}
	narrow("it was stopped", func(p process) bool { return p.posture.stance == stopped })
	if earliest := firstToLeave(left); earliest != nil && !staysBusy(left, earliest) {
		narrow("it ended with exit code 0, and the others waited for it", func(p process) bool { return p.digest == earliest })
	}
	if lowest, any := behind(left); any {
		narrow("the others had got further", func(p process) bool {
			return lowest == 0 && p.step == 0 || lowest > 0 && (p.step == 0 || p.step == lowest)
		})
	}
	narrow("the others waited for it until their timeout", func(p process) bool { return !p.timeout })
	if slices.ContainsFunc(left, func(p process) bool { return !p.Succeeded }) {
		if odd, why := oddOnes(left); odd != nil {
			narrow(why, odd)
		}
		if gone := firstToLeave(left); gone != nil {
			narrow("it runs on, and the others have ended", func(p process) bool {
				return !p.Succeeded && (p.posture.stance == works || busy(p, gone))
			})
		}
		silent := 0
		for _, p := range left {
			if p.silent() {
				silent++
			}
		}
		if 2*silent < len(left) {
			narrow("it alone had said nothing", process.silent)
		}
	}
	switch first := left[0]; {
	case reason == "": // nothing was told apart
	case len(left) == 1:
		return first.blamed(reason)
	case !slices.ContainsFunc(left, func(p process) bool { return p.digest.Failure.Node != first.digest.Failure.Node }):
		first.rank = -1
		return first.blamed(reason + " (one of several processes there)")
	}
	none := &digest{Verdict: Verdict{Index: -1, Rank: -1, ExitCode: -1, Rule: Waited, Reason: untold}, daemon: -1}
	none.Node = -1
	return none
}

// Waited is the rule of a gang that waited for one of its processes.
const Waited = 4

// untold is the reason of a verdict that names no process and no node.
const untold = "nothing tells which process the others waited for: no step, no word and no stack sets one apart"

// processes returns the processes of a gang, with what is known of them.
func processes(all []*digest) (left []process) {
	steps, stacks := map[int]int64{}, map[int]string{} // mpirun's share has those of all nodes
	for _, d := range all {
		for rank, step := range d.Steps {
			steps[rank] = max(steps[rank], step)
		}
		for rank, stack := range d.Stacks {
			stacks[rank] = stack
		}
	}
	for _, d := range all {
		if d.Daemon && len(d.Ranks) == 0 || len(d.Ranks) == 0 && (d.Lost || d.Why == nil && !d.Stalled) {
			continue
		}
		for _, rank := range ranksOf(d) {
			p := process{digest: d, rank: rank, step: steps[rank], timeout: d.reportedTimeout(rank)}
			if !d.Succeeded {
				p.posture = postureOf(stacks[rank], rank, len(d.Ranks) == 1)
			}
			left = append(left, p)
		}
	}
	return left
}

// blamed returns the digest of a process for which the others waited.
func (p process) blamed(reason string) *digest {
	d := p.digest
	d.Rule, d.Reason = Waited, reason
	if d.Rank != p.rank {
		d.Rank, d.ExitCode, d.Signal = p.rank, -1, ""
	}
	if d.Succeeded {
		d.ExitCode = 0
	}
	return d
}

// silent reports whether nothing was heard of a process.
func (p process) silent() bool { return p.Output == "" && p.step == 0 && !p.Succeeded }

// behind returns the lowest step of some processes: 0 if most have reported steps, and others none. It reports false if no
// steps tell anything.
func behind(left []process) (lowest int64, any bool) {
	lowest = 1 << 62
	reported := 0
	for _, p := range left {
		if p.step > 0 {
			lowest = min(lowest, p.step)
			reported++
		}
	}
	if reported > 1 && reported < len(left) && 2*reported > len(left) {
		return 0, true
	}
	return lowest, reported > 0
}

// firstToLeave returns the first share that has ended with success, or nil.
func firstToLeave(left []process) (first *digest) {
	for _, p := range left {
		if p.Succeeded && (first == nil || p.At.Before(first.At)) {
			first = p.digest
		}
	}
	return first
}

// staysBusy reports whether a process that runs did not wait for one that has left, or whether that is not known of all.
func staysBusy(left []process, gone *digest) bool {
	return slices.ContainsFunc(left, func(p process) bool {
		return !p.Succeeded && (busy(p, gone) || p.posture.stance != waits && !(p.step > 0 && p.step > stepOf(left, gone)))
	})
}

// stepOf returns the greatest step of a share.
func stepOf(left []process, of *digest) (step int64) {
	for _, p := range left {
		if p.digest == of {
			step = max(step, p.step)
		}
	}
	if step == 0 { // it reported none
		return 1 << 62
	}
	return step
}

// busy reports whether a process was heard long after another one had left: in the second half of the time since.
func busy(p process, gone *digest) bool {
	return gone != nil && p.At.After(gone.At) && p.Heard.After(gone.At.Add(p.At.Sub(gone.At)/2))
}

// ranksOf returns the ranks of a share, or -1 for those that are not known.
func ranksOf(d *digest) []int {
	if len(d.Ranks) == 0 {
		return []int{-1}
	}
	return d.Ranks
}

// reportedTimeout reports whether a process said that a collective had timed out.
func (d *digest) reportedTimeout(rank int) bool {
	switch {
	case !d.text.timeout:
		return false
	case len(d.text.timeouts) > 0: // each line names its rank
		return d.text.timeouts[rank]
	case d.text.torchrun != nil:
		return slices.ContainsFunc(d.text.torchrun, func(c Child) bool { return c.Rank == rank })
	}
	return true
}

// InCollective reports whether a stack, as py-spy or the kernel shows it, is that of a process that waits for its peers.
func InCollective(stack string) bool {
	return slices.ContainsFunc(collectives, func(s string) bool { return strings.Contains(stack, s) })
}

// collectives are names in the stacks of processes that wait for their peers.
var collectives = []string{
	"all_reduce", "allreduce", "all_gather", "allgather", "reduce_scatter", "all_to_all", "alltoall", "broadcast (", "barrier (", "_store_based_barrier",
	"distributed_c10d.py", "ProcessGroup", "gloo::", "ncclGroupEnd", "ncclCommInit", "MPI_", "PMPI_", "mca_coll", "_call_grad_hooks", "init_process_group",
}
