package rootcause

import (
	"fmt"
	"strings"
	"testing"
)

// stackOf returns what package stacks tells of a process: its state, and where the kernel has it. A rank below 0 is not told.
func stackOf(pid, parent, rank int, name, state, place string, more ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "process %d (%s)", pid, name)
	if rank >= 0 {
		fmt.Fprintf(&b, " of rank %d", rank)
	}
	fmt.Fprintf(&b, ", child of %d\nState:\t%s\nVmRSS:\t  2048 kB\nThreads:\t2\n%s", parent, state, strings.Join(more, ""))
	fmt.Fprintf(&b, "  thread %d (%s) in %s\n  thread %d (worker) in do_epoll_wait\n", pid, name, place, pid+1)
	return b.String()
}

// TestOddOneOut is a table of gangs that hang, by what the stacks of their processes tell. Each is one process per share, in
// order of the rank.
func TestOddOneOut(t *testing.T) {
	kernel := func(rank int, state, place string, more ...string) string {
		return stackOf(100, 1, rank, "sh", "S (sleeping)", "do_wait") + stackOf(102, 100, rank, "python3", state, place, more...) +
			stackOf(104, 102, rank, "python3", "S (sleeping)", "pipe_read")
	}
	const sleeping = "S (sleeping)"
	waits := func(rank int) string { return kernel(rank, sleeping, "futex_do_wait") }
	spins := func(rank int) string { return kernel(rank, "R (running)", "running", "  uses an accelerator\n") }
	spy := func(rank int, frames string) string {
		return fmt.Sprintf("process 7 (pt_main_thread) of rank %d, child of 1\nProcess 7: python train.py\nPython v3.12.3 (/usr/bin/python3.12)\n\nThread 7 (idle): \"MainThread\"\n%s", rank, frames)
	}
	const (
		reduces = "    all_reduce (torch/distributed/distributed_c10d.py:2501)\n    main (train.py:30)\n"
		imports = "    _call_with_frames_removed (<frozen importlib._bootstrap>:488)\n    <module> (train.py:2)\n"
		loads   = "    __next__ (data.py:7)\n    main (train.py:28)\n"
	)
	for _, tt := range []struct {
		name   string
		stacks []string
		root   int // -1: nothing tells it
		reason string
	}{
		{"one sleeps", []string{waits(0), kernel(1, sleeping, "hrtimer_nanosleep")}, 1, "in hrtimer_nanosleep, the others in futex_do_wait"},
		{"the first sleeps", []string{kernel(0, sleeping, "hrtimer_nanosleep"), waits(1), waits(2)}, 0, "hrtimer_nanosleep"},
		{"one is stopped", []string{waits(0), waits(1), kernel(2, "T (stopped)", "do_signal_stop")}, 2, "stopped"},
		{"one is stopped by a debugger", []string{waits(0), kernel(1, "t (tracing stop)", "ptrace_stop")}, 1, "stopped"},
		{"one waits for its disk", []string{waits(0), waits(1), kernel(2, "D (disk sleep)", "nfs_wait_bit_killable")}, 2, "nfs_wait_bit_killable (state D)"},
		{"one computes", []string{kernel(0, "R (running)", "0"), waits(1)}, 0, "no system call"},
		{"one waits for its data", []string{waits(0), waits(1), kernel(2, sleeping, "pipe_read"), waits(3)}, 2, "pipe_read"},
		{"the others wait in their accelerators", []string{spins(0), spins(1), waits(2)}, 2, "futex_do_wait"},
		{"one sleeps, the other waits in its accelerator", []string{spins(0), kernel(1, sleeping, "hrtimer_nanosleep")}, 1, "hrtimer_nanosleep"},
		{"the others look for something again and again", []string{
			kernel(0, sleeping, "hrtimer_nanosleep"), kernel(1, sleeping, "hrtimer_nanosleep"), kernel(2, sleeping, "hrtimer_nanosleep"), waits(3),
		}, 3, "futex_do_wait"},
		{"one is in its imports", []string{spy(0, reduces), spy(1, imports), spy(2, reduces)}, 1, "in a collective"},
		{"the imports, by the kernel", []string{waits(0), kernel(1, "R (running)", "running"), waits(2)}, 1, "no system call"},
		{"one loads data, and is not in a collective", []string{spy(0, reduces), spy(1, loads)}, 1, "in a collective"},
		{"a stack without words of its process", []string{reduces, loads}, 1, "in a collective"},
		{"functions whose names nobody knows", []string{kernel(0, sleeping, "a_new_wait"), kernel(1, sleeping, "a_new_wait"), kernel(2, sleeping, "another")}, 2, "another"},

		{"all wait", []string{waits(0), waits(1), waits(2)}, -1, ""},
		{"all sleep", []string{kernel(0, sleeping, "hrtimer_nanosleep"), kernel(1, sleeping, "hrtimer_nanosleep")}, -1, ""},
		{"both wait, in different ways", []string{waits(0), kernel(1, sleeping, "poll_schedule_timeout")}, -1, ""},
		{"one waits in its accelerator, the other elsewhere", []string{spins(0), waits(1)}, -1, ""},
		{"two of three sleep", []string{waits(0), kernel(1, sleeping, "hrtimer_nanosleep"), kernel(2, sleeping, "hrtimer_nanosleep")}, -1, ""},
		{"two of four do other things", []string{waits(0), waits(1), kernel(2, sleeping, "pipe_read"), kernel(3, sleeping, "poll_schedule_timeout")}, -1, ""},
		{"all are stopped", []string{kernel(0, "T (stopped)", "do_signal_stop"), kernel(1, "T (stopped)", "do_signal_stop")}, -1, ""},
		{"no stacks", []string{"", ""}, -1, ""},
		{"shells alone", []string{stackOf(1, 0, 0, "sh", sleeping, "do_wait"), stackOf(1, 0, 1, "sh", sleeping, "do_wait")}, -1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var failures []Failure
			for rank, stack := range tt.stacks {
				failures = append(failures, Failure{
					Node: rank, Ranks: []int{rank}, At: at(0), Stalled: true, Output: "begins\n", Stacks: map[int]string{rank: stack},
				})
			}
			verdicts := Order(failures)
			root := verdicts[0]
			if root.Rank != tt.root || root.Node != tt.root || root.Rule != Waited || root.Peer || !strings.Contains(root.Reason, tt.reason) {
				t.Errorf("root is rank %d of node %d by rule %d: %q", root.Rank, root.Node, root.Rule, root.Reason)
			}
			for _, v := range verdicts[1:] {
				if v.Peer != (tt.root >= 0) {
					t.Errorf("rank %d is a peer: %t", v.Rank, v.Peer)
				}
			}
			if want := len(failures); tt.root < 0 && (len(verdicts) != want+1 || root.Index != -1) {
				t.Errorf("%d verdicts: %+v", len(verdicts), root)
			}
		})
	}
}

// Of a launcher with several processes the one is found by its rank, on whichever node it is.
func TestOddOneOutOfSeveralPerShare(t *testing.T) {
	launcher := stackOf(50, 1, -1, "torchrun", "S (sleeping)", "hrtimer_nanosleep")
	text := func(first int, places ...string) string {
		all := launcher
		for i, place := range places {
			all += stackOf(60+10*i, 50, first+i, "python3", "S (sleeping)", place)
		}
		return all
	}
	stall := func(node int, stack string) Failure {
		ranks := []int{2 * node, 2*node + 1}
		return Failure{Node: node, Ranks: ranks, At: at(0), Stalled: true, Stacks: map[int]string{ranks[0]: stack, ranks[1]: stack}}
	}
	const waits, sleeps = "futex_do_wait", "hrtimer_nanosleep"
	for _, tt := range []struct {
		name     string
		failures []Failure
		root     string // rank, node
	}{
		{"one process", []Failure{stall(0, text(0, waits, waits)), stall(1, text(2, waits, sleeps))}, "3, 1"},
		{"one node", []Failure{stall(0, text(0, waits, waits)), stall(1, text(2, sleeps, sleeps))}, "-1, 1"},
		{"no process", []Failure{stall(0, text(0, waits, waits)), stall(1, text(2, waits, waits))}, "-1, -1"},
		{"a process of each node", []Failure{stall(0, text(0, waits, sleeps)), stall(1, text(2, waits, sleeps))}, "-1, -1"},
	} {
		if v := Order(tt.failures)[0]; fmt.Sprintf("%d, %d", v.Rank, v.Node) != tt.root {
			t.Errorf("%s: rank %d of node %d, want %s: %s", tt.name, v.Rank, v.Node, tt.root, v.Reason)
		}
	}
	all := "node 0 of the gang:\n" + text(0, waits, waits) + "\nnode 1 of the gang:\n" + text(2, sleeps, waits)
	stacks := map[int]string{0: all, 1: all, 2: all, 3: all}
	v := Order([]Failure{
		{Node: 0, Ranks: []int{0, 1}, At: at(0), Stalled: true, Stacks: stacks}, {Node: 1, Ranks: []int{2, 3}, Daemon: true, At: at(0), Stacks: stacks},
	})[0]
	if v.Rank != 2 || v.Node != 1 {
		t.Errorf("mpirun: rank %d of node %d: %s", v.Rank, v.Node, v.Reason)
	}
}

// A process that ends with success before the others do is the cause of what follows, unless those go on without it.
func TestLeavesEarly(t *testing.T) {
	left := func(rank, ms int) Failure {
		return Failure{Node: rank, Ranks: []int{rank}, At: at(ms), Succeeded: true, Output: "x\n"}
	}
	stall := func(rank, heard int, place string) Failure {
		return Failure{
			Node: rank, Ranks: []int{rank}, At: at(60_000), Heard: at(heard), Stalled: true, Output: "x\n",
			Stacks: map[int]string{rank: stackOf(9, 1, rank, "python3", "S (sleeping)", place)},
		}
	}
	steps := func(f Failure, n int64) Failure {
		f.Steps = map[int]int64{f.Ranks[0]: n}
		return f
	}
	const waits, sleeps = "futex_do_wait", "hrtimer_nanosleep"
	for _, tt := range []struct {
		name     string
		failures []Failure
		root     string // rank, exit code, rule
		reason   string
	}{
		{"the others wait for it", []Failure{stall(0, 1000, waits), left(1, 900), stall(2, 1000, waits)}, "1, 0, 4", "ended with exit code 0"},
		{"the other waits for it", []Failure{left(0, 900), stall(1, 1000, waits)}, "0, 0, 4", "ended with exit code 0"},
		{"the others had got further", []Failure{steps(stall(0, 1000, ""), 6), steps(left(1, 900), 5)}, "1, 0, 4", ""},
		{"it had got further", []Failure{steps(stall(0, 1000, ""), 5), steps(left(1, 900), 6)}, "0, -1, 4", "got further"},
		{"the other sleeps", []Failure{left(0, 900), stall(1, 1000, sleeps)}, "1, -1, 4", "runs on"},
		{"the other still prints", []Failure{left(0, 900), stall(1, 59_000, "do_wait")}, "1, -1, 4", "runs on"},
		{"nothing tells", []Failure{left(0, 900), stall(1, 1000, "")}, "-1, -1, 4", "nothing tells"},
		{"the others are cut off from it", []Failure{single(0, 1200, exit(1), reset), left(1, 900), single(2, 1100, exit(1), reset)}, "1, 0, 5", "cut off"},
		{"another fails by itself", []Failure{single(0, 1200, exit(3), "ValueError: x\n"), left(1, 900)}, "0, 3, 3", "ValueError"},
		{"the others had failed before", []Failure{single(0, 800, exit(1), reset), left(1, 900), single(2, 700, exit(1), reset)}, "2, 1, 5", ""},
	} {
		v := Order(tt.failures)[0]
		if got := fmt.Sprintf("%d, %d, %d", v.Rank, v.ExitCode, v.Rule); got != tt.root || !strings.Contains(v.Reason, tt.reason) {
			t.Errorf("%s: %s, want %s: %s", tt.name, got, tt.root, v.Reason)
		}
	}
}

// A process that alone has said nothing, or has reported no step where most have, is the one.
func TestSilentOne(t *testing.T) {
	gang := func(outputs ...string) (all []Failure) {
		for rank, output := range outputs {
			f := Failure{Node: rank, Ranks: []int{rank}, At: at(0), Stalled: true, Output: output}
			if output == "step" {
				f.Steps = map[int]int64{rank: 4}
			}
			all = append(all, f)
		}
		return all
	}
	for _, tt := range []struct {
		failures []Failure
		root     int
	}{
		{gang("x", "x", ""), 2}, {gang("x", "", "x", ""), -1}, {gang("x", ""), -1}, {gang("", "", ""), -1},
		{gang("step", "x", "step"), 1}, {gang("step", "x", "x"), -1}, {gang("step", "x"), -1},
	} {
		if v := Order(tt.failures)[0]; v.Rank != tt.root {
			t.Errorf("%+v: rank %d, want %d: %s", tt.failures, v.Rank, tt.root, v.Reason)
		}
	}
}
