package rootcause

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// at returns a time so many milliseconds after noon.
func at(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }

func exit(code int) *attempt.Failure { return &attempt.Failure{Cause: attempt.Exit, ExitCode: code} }

func signal(name string) *attempt.Failure {
	return &attempt.Failure{Cause: attempt.Signal, ExitCode: -1, Signal: name}
}

// single returns the failure of a gang's process that is alone on its node.
func single(node, ms int, why *attempt.Failure, output string) Failure {
	return Failure{Node: node, Ranks: []int{node}, At: at(ms), Why: why, Output: output}
}

const reset = "RuntimeError: Read error: Connection reset by peer\n"

// TestOrder is the table of the rules. The roots are written as "rule: rank, node, exit code, signal".
func TestOrder(t *testing.T) {
	recordedAt := func(file string, node int, ms int, why *attempt.Failure, ranks ...int) Failure {
		return Failure{Node: node, Ranks: ranks, At: at(ms), Why: why, Output: recorded(t, file)}
	}
	fault := func(ms, xid int, ends bool) []Fault {
		return []Fault{{At: at(ms), Xid: xid, Ends: ends, Text: fmt.Sprint("Xid ", xid)}}
	}
	with := func(f Failure, change func(*Failure)) Failure {
		change(&f)
		return f
	}
	steps := func(f Failure, step int64) Failure {
		return with(f, func(f *Failure) { f.Steps = map[int]int64{f.Node: step} })
	}
	stalled := func(node int, step int64, stack string) Failure {
		return Failure{Node: node, Ranks: []int{node}, Stalled: true, Steps: map[int]int64{node: step}, Stacks: map[int]string{node: stack}}
	}
	const waits, works = "all_reduce (torch/distributed/distributed_c10d.py:1541)", "read_batch (data.py:7)"
	for _, tt := range []struct {
		name     string
		failures []Failure
		root     string
		reason   string // a part of it
		own      []int  // nodes of others that failed by themselves
	}{
		// What was recorded.
		{"rank killed", []Failure{
			recordedAt("torch-kill.0.txt", 0, 0, exit(1), 0), recordedAt("torch-kill.1.txt", 1, 300, signal("KILL"), 1), recordedAt("torch-kill.2.txt", 2, 0, exit(1), 2),
		}, "3: 1, 1, -1, KILL", "signal KILL", nil},
		{"rank raised", []Failure{
			recordedAt("torch-raise.0.txt", 0, 0, exit(1), 0), recordedAt("torch-raise.1.txt", 1, 900, exit(1), 1), recordedAt("torch-raise.2.txt", 2, 0, exit(1), 2),
		}, "3: 1, 1, 1, ", "ValueError: the loss is not a number", nil},
		{"rank hung", []Failure{
			recordedAt("torch-hang.0.txt", 0, 0, exit(1), 0), recordedAt("torch-hang.1.txt", 1, 0, nil, 1), recordedAt("torch-hang.2.txt", 2, 3, exit(1), 2),
		}, "4: 1, 1, -1, ", "waited for it until their timeout", nil},
		{"torchrun, worker killed", []Failure{
			recordedAt("torchrun-kill.0.txt", 0, 0, exit(1), 0), recordedAt("torchrun-kill.1.txt", 1, 2000, exit(1), 1), recordedAt("torchrun-kill.2.txt", 2, 0, exit(1), 2),
		}, "3: 1, 1, -1, KILL", "signal KILL", nil},
		{"torchrun, worker raised", []Failure{
			recordedAt("torchrun-raise.0.txt", 0, 0, exit(1), 0), recordedAt("torchrun-raise.1.txt", 1, 2000, exit(1), 1), recordedAt("torchrun-raise.2.txt", 2, 0, exit(1), 2),
		}, "3: 1, 1, 1, ", "ValueError", nil},
		{"torchrun, one of two workers crashed", []Failure{
			recordedAt("torchrun-segv.0.txt", 0, 0, exit(1), 0, 1), recordedAt("torchrun-segv.1.txt", 1, 2000, exit(1), 2, 3),
		}, "2: 3, 1, -1, SEGV", "signal SEGV", nil},
		{"mpirun, exit code", []Failure{
			recordedAt("mpirun-exit-code.txt", 0, 500, exit(17), 0, 1), {Node: 1, Ranks: []int{2, 3}, Daemon: true}, {Node: 2, Ranks: []int{4, 5}, Daemon: true},
		}, "3: 3, 1, 17, ", "exit code 17", nil},
		{"mpirun, rank killed", []Failure{
			recordedAt("mpirun-rank-killed.txt", 0, 500, exit(137), 0, 1), {Node: 1, Ranks: []int{2, 3}, Daemon: true}, {Node: 2, Ranks: []int{4, 5}, Daemon: true},
		}, "3: 4, 2, -1, KILL", "signal KILL", nil},
		{"mpirun, orted killed", []Failure{
			recordedAt("mpirun-orted-killed.txt", 0, 0, exit(205), 0, 1), {Node: 1, Ranks: []int{2, 3}, Daemon: true, At: at(5), Why: signal("KILL")},
		}, "3: -1, 1, -1, KILL", "signal KILL", nil},
		{"mpirun, nothing known of the daemon", []Failure{
			recordedAt("mpirun-orted-killed.txt", 0, 0, exit(205), 0, 1), {Node: 1, Ranks: []int{2, 3}, Daemon: true},
		}, "5: -1, 1, 205, ", "lost its daemon", nil},
		{"mpirun killed", []Failure{
			{Node: 0, Ranks: []int{0, 1}, At: at(70), Why: signal("KILL")}, {Node: 1, Ranks: []int{2, 3}, Daemon: true, At: at(0), Why: exit(1)},
		}, "3: -1, 0, -1, KILL", "", nil},
		{"NCCL, a peer and a rank out of memory", []Failure{
			recordedAt("later-nccl-remote.txt", 2, 0, signal("ABRT"), 2), recordedAt("later-cuda-memory.txt", 1, 100, exit(1), 1),
		}, "3: 1, 1, 1, ", "CUDA out of memory", nil},
		{"NCCL, watchdog", []Failure{
			recordedAt("later-nccl-watchdog.txt", 0, 0, signal("ABRT"), 0), {Node: 1, Ranks: []int{1}},
		}, "4: 1, 1, -1, ", "waited", nil},

		// Rule 1.
		{"node lost", []Failure{single(0, 0, exit(1), "ValueError: x\n"), {Node: 1, Ranks: []int{1}, At: at(9000), Lost: true}}, "1: 1, 1, -1, ", "node was lost", []int{0}},
		{"node lost, as a cause", []Failure{single(0, 0, signal("SEGV"), ""), single(1, 50, attempt.Failed(attempt.NodeLost, nil), "")}, "1: 1, 1, -1, ", "", []int{0}},
		{"device fell off", []Failure{
			single(0, 0, exit(1), reset), with(single(1, 100, exit(1), reset), func(f *Failure) { f.Faults = fault(-20_000, 79, true) }),
		}, "1: 1, 1, 1, ", "Xid 79", nil},
		{"device under a running process", []Failure{
			single(0, 0, exit(1), "ValueError: x\n"), {Node: 1, Ranks: []int{1}, Faults: fault(0, 48, true)},
		}, "1: 1, 1, -1, ", "Xid 48", []int{0}},
		{"illegal access and the process died", []Failure{
			single(0, 0, exit(1), "RuntimeError: CUDA error\n"), with(single(1, 100, exit(1), ""), func(f *Failure) { f.Faults = fault(0, 31, false) }),
		}, "1: 1, 1, 1, ", "Xid 31", []int{0}},
		{"illegal access elsewhere", []Failure{single(0, 0, exit(1), ""), {Node: 1, Ranks: []int{1}, Faults: fault(0, 31, false)}}, "3: 0, 0, 1, ", "", nil},
		{"cleanup after a fault", []Failure{
			single(0, 0, exit(1), "ValueError: x\n"), with(single(1, 100, exit(1), reset), func(f *Failure) { f.Faults = fault(0, 45, false) }),
		}, "3: 0, 0, 1, ", "ValueError", nil},
		{"old fault", []Failure{
			single(0, 0, exit(1), "ValueError: x\n"), with(single(1, 100, exit(1), reset), func(f *Failure) { f.Faults = fault(-61_000, 79, true) }),
		}, "3: 0, 0, 1, ", "", nil},
		{"two faults", []Failure{
			with(single(0, 0, exit(1), reset), func(f *Failure) { f.Faults = fault(-10, 79, true) }),
			with(single(1, 100, exit(1), reset), func(f *Failure) { f.Faults = fault(-20, 48, true) }),
		}, "1: 1, 1, 1, ", "Xid 48", []int{0}},

		// Rule 2.
		{"out of memory", []Failure{single(0, 0, exit(1), "ValueError: x\n"), single(1, 100, attempt.Failed(attempt.OutOfMemory, nil), "")}, "2: 1, 1, -1, ", "out of memory", []int{0}},
		{"disk full, by the supervisor", []Failure{
			single(0, 0, exit(1), ""), single(1, 100, &attempt.Failure{ExitCode: 1, Err: fmt.Errorf("run: %w", syscall.ENOSPC)}, ""),
		}, "2: 1, 1, 1, ", "disk is full", []int{0}},
		{"disk full, by the program", []Failure{
			single(0, 0, exit(1), reset), single(1, 100, exit(1), "OSError: [Errno 28] No space left on device\n"),
		}, "2: 1, 1, 1, ", "disk is full", nil},
		{"shared memory full is NCCL's", []Failure{recordedAt("later-nccl-shm.txt", 1, 0, exit(1), 1), single(0, 10, exit(1), reset)}, "3: 1, 1, 1, ", "unhandled system error", nil},
		{"bus error", []Failure{single(0, 0, exit(3), ""), single(1, 100, signal("BUS"), reset)}, "2: 1, 1, -1, BUS", "", []int{0}},

		// Rule 3.
		{"exit code without a word", []Failure{single(0, 0, exit(1), reset), single(1, 100, exit(3), "")}, "3: 1, 1, 3, ", "exit code 3", nil},
		{"first of two", []Failure{single(0, 100, exit(1), "KeyError: 'a'\n"), single(1, 50, exit(1), "KeyError: 'a'\n")}, "3: 1, 1, 1, ", "KeyError", []int{0}},
		{"own error and peers' words", []Failure{single(0, 0, exit(1), reset), single(1, 100, exit(1), reset+"ValueError: x\n")}, "3: 1, 1, 1, ", "ValueError", nil},
		{"aborted by a library", []Failure{single(0, 0, signal("ABRT"), reset), single(1, 100, exit(9), "")}, "3: 1, 1, 9, ", "", nil},
		{"torchrun ended by another torchrun", []Failure{
			single(0, 0, exit(1), "Sending process 12 closing signal SIGTERM\n"), single(1, 100, exit(9), ""),
		}, "3: 1, 1, 9, ", "", nil},
		{"function", []Failure{
			single(0, 0, attempt.Failed(attempt.Function, errors.New("read tcp: connection reset by peer")), ""),
			single(1, 100, attempt.Failed(attempt.Function, errors.New("the loss is not a number")), ""),
		}, "3: 1, 1, -1, ", "not a number", nil},
		{"panic", []Failure{
			single(0, 0, attempt.Failed(attempt.Function, errors.New("write tcp: broken pipe")), ""), single(1, 100, attempt.Failed(attempt.Panic, errors.New("index out of range")), ""),
		}, "3: 1, 1, -1, ", "", nil},

		// Rule 4.
		{"stall, lowest step", []Failure{stalled(0, 8, waits), stalled(1, 7, waits), stalled(2, 8, works)}, "4: 1, 1, -1, ", "got further", nil},
		{"stall, stack", []Failure{stalled(0, 8, waits), stalled(1, 8, works), stalled(2, 8, waits)}, "4: 1, 1, -1, ", "in a collective", nil},
		{"stall, nothing known", []Failure{stalled(2, 8, ""), stalled(0, 8, "")}, "4: -1, -1, -1, ", "nothing tells", []int{2, 0}},
		{"stall of one process", []Failure{stalled(0, 8, "")}, "4: 0, 0, -1, ", "made no progress", nil},
		{"all timed out", []Failure{single(0, 9, exit(1), "Timed out waiting 15000ms\n"), single(1, 5, exit(1), "Timed out waiting 15000ms\n")}, "4: -1, -1, -1, ", "nothing tells", []int{1, 0}},
		{"stall, the first rank alone reports", []Failure{stalled(0, 8, waits), {Node: 1, Ranks: []int{1}, Stalled: true, Stacks: map[int]string{1: works}}}, "4: 1, 1, -1, ", "", nil},
		{"timeout, lowest step", []Failure{
			steps(single(0, 0, exit(1), "Timed out waiting 15000ms\n"), 8), steps(single(1, 5, exit(1), "Timed out waiting 15000ms\n"), 7),
		}, "4: 1, 1, 1, ", "got further", nil},
		{"stall of torchrun", []Failure{
			{Node: 0, Ranks: []int{0, 1}, Stalled: true, Steps: map[int]int64{0: 8, 1: 8}}, {Node: 1, Ranks: []int{2, 3}, Stalled: true, Steps: map[int]int64{2: 8, 3: 7}},
		}, "4: 3, 1, -1, ", "got further", nil},
		{"stall of mpirun", []Failure{
			{Node: 0, Ranks: []int{0, 1}, Stalled: true, Steps: map[int]int64{0: 8, 1: 8, 2: 7, 3: 8}}, {Node: 1, Ranks: []int{2, 3}, Daemon: true},
		}, "4: 2, 1, -1, ", "got further", nil},
		{"timeouts of named ranks", []Failure{
			{Node: 0, Ranks: []int{0, 1}, At: at(0), Why: exit(1), Output: "[rank1]:[E] [Rank 1] Watchdog caught collective operation timeout: x\n"},
			{Node: 1, Ranks: []int{2}, At: at(1), Why: exit(1), Output: "[rank2]:[E] [Rank 2] Watchdog caught collective operation timeout: x\n"},
		}, "4: 0, 0, -1, ", "", nil},

		// Rule 5.
		{"peers alone", []Failure{single(0, 9, exit(1), reset), single(1, 5, exit(1), reset)}, "5: 1, 1, 1, ", "", nil},
		{"all ran out of time", []Failure{single(0, 9, attempt.Failed(attempt.Timeout, errors.New("ran longer than 1m")), ""), single(1, 5, attempt.Failed(attempt.Timeout, nil), "")}, "5: 1, 1, -1, ", "", nil},
		{"ended by gputrain", []Failure{single(0, 0, nil, "ValueError: x\n"), single(1, 5, exit(1), reset)}, "5: 1, 1, 1, ", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			verdicts := Order(tt.failures)
			if len(verdicts) == 0 {
				t.Fatal("no root")
			}
			v := verdicts[0]
			if got := fmt.Sprintf("%d: %d, %d, %d, %s", v.Rule, v.Rank, v.Node, v.ExitCode, v.Signal); got != tt.root || v.Peer || !strings.Contains(v.Reason, tt.reason) {
				t.Errorf("root is %q, want %q; reason %q, want %q; peer %v", got, tt.root, v.Reason, tt.reason, v.Peer)
			}
			var own []int
			for _, v := range verdicts[1:] {
				if !v.Peer {
					own = append(own, v.Node)
				}
				if v.Reason == "" || v.Failure.Node != tt.failures[v.Index].Node {
					t.Errorf("got %+v", v)
				}
			}
			if fmt.Sprint(own) != fmt.Sprint(tt.own) {
				t.Errorf("others that failed by themselves are on nodes %v, want %v", own, tt.own)
			}
		})
	}
}

func TestNoFailure(t *testing.T) {
	for _, failures := range [][]Failure{nil, {single(0, 0, nil, "")}} {
		if got := Order(failures); got != nil {
			t.Errorf("got %+v", got)
		}
	}
}

// FuzzOrder checks that each failure is in the order once, whatever it prints.
func FuzzOrder(f *testing.F) {
	f.Add("ValueError: x", reset, int64(3), uint8(0))
	f.Add("Timed out waiting 15000ms", "", int64(0), uint8(7))
	f.Fuzz(func(t *testing.T, a, b string, step int64, bits uint8) {
		failures := []Failure{
			single(0, int(bits), exit(int(bits&3)), a),
			{Node: 1, Ranks: []int{1, 2}, At: at(3), Output: b, Stalled: bits&4 != 0, Lost: bits&8 != 0, Daemon: bits&16 != 0, Steps: map[int]int64{2: step}},
			{Node: 2, At: at(4), Output: b, Why: signal("KILL")},
		}
		seen := map[int]bool{}
		for i, v := range Order(failures) {
			if seen[v.Index] || i == 0 && (v.Peer || v.Rule == 0) {
				t.Errorf("got %+v", v)
			}
			seen[v.Index] = true
		}
		if !seen[0] || !seen[2] {
			t.Errorf("some are missing: %v", seen)
		}
	})
}
