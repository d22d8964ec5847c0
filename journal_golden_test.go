package gputrain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/fleet"
	"github.com/gputrain/gputrain/internal/journal"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/providers/driver"
)

// goldenJournal was written by an earlier version. Tests read it, and compare what is written now
// with it: never generate it again.
const goldenJournal = "internal/journal/testdata/golden"

// goldenSpec is the spec of goldenJournal.
var goldenSpec = Spec{
	Accelerator: accelerators.A100(), Nodes: 2, MaxNodes: 3, IdleTimeout: time.Minute, Regions: []string{"here"}, Image: Image{Pip: []string{"torch"}, Env: map[string]string{"A": "b"}},
	Mounts: []Mount{{Source: "vol", Target: "/data"}}, BudgetUSD: 12.5, Lease: time.Hour,
}

// goldenTasks are the tasks of goldenJournal, one slice for each call. The third call is a
// broadcast to two nodes.
func goldenTasks() [][]*unit {
	called := func(function, arg string) Task {
		body := codec.Body{Head: []byte(arg), Parts: [][]byte{{0xff}, []byte("part")}}
		return Task{Timeout: time.Minute, call: &call{function: function, marshal: func() (codec.Body, error) { return body, nil }}}
	}
	full := Task{
		Name: "full", Args: []string{"sh", "-c", "\xff"}, Dir: "d", Env: map[string]string{"E": "\xfe"}, Secrets: map[string]Secret{"KEY": "sesame"}, Stdin: []byte("in"),
		Timeout: time.Hour, Retries: 2, HoldsLease: true, Outputs: []string{"*.pt"}, Target: OnLabels(map[string]string{"zone": "a", "arch": "arm64"}),
	}
	onRank := Script("true")
	onRank.Target, onRank.Stdin = OnRank(1), make([]byte, 16<<20+1)
	nodes := []*poolNode{namedNode("p-0"), namedNode("p-1")}
	return [][]*unit{
		{{id: "t1", label: "full", task: full}, {id: "t2", label: "task 1", index: 1, task: onRank}},
		{
			{id: "t3", label: "task 0", task: called("f", "a")}, {id: "t4", label: "task 1", index: 1, task: called("f", "b")},
			{id: "t5", label: "task 2", index: 2, task: called("g", "c")},
		},
		{{id: "t6", label: "node 0", task: called("f", "d"), pin: nodes[0], members: nodes}, {id: "t7", label: "node 1", index: 1, task: called("f", "d"), pin: nodes[1], members: nodes}},
		{{id: "t8", label: "task 0", task: Cmd("true")}},
		{{id: "t9", label: "task 0", task: called("f", "e")}},
	}
}

// namedNode returns a node that has only a name.
func namedNode(name string) *poolNode {
	n := node.New(context.Background(), &node.Settings{}, nil)
	n.Resume(node.Earlier{Name: name})
	return &poolNode{Member: &fleet.Member{Node: n}}
}

// goldenResults are the results in goldenJournal, by task.
func goldenResults() map[string]Result {
	node := Node{
		Rank: 1, ID: "i-1", Name: "p-1", State: NodeReady, Provider: "acme", Region: "here", InstanceType: "big", HourlyUSD: driver.USD(1.25), PublicAddr: "192.0.2.1", PrivateAddr: "10.0.0.1",
		HostKey: "SHA256:k", HostKeySource: driver.HostKeyFirstContact, Accelerator: accelerators.A100(), OS: "linux", Arch: "amd64", VCPUs: 8, MemoryGiB: 31.5, labels: map[string]string{"zone": "a"},
	}
	noPrice := Node{Name: "p-0"}
	failed := &TaskError{
		Index: 1, Name: "task 1", Node: noPrice, Attempt: 2, Cause: CauseTimeout, ExitCode: -1, Signal: "KILL", Tail: "tail", Stack: "stack", Err: fmt.Errorf("no: %w", ErrOutOfMemory),
	}
	return map[string]Result{
		"t3": {Node: node, Attempts: 1, Elapsed: time.Second, CostUSD: driver.USD(0.5), function: "f", value: codec.Body{Head: []byte("head\xff"), Parts: [][]byte{[]byte("part")}}},
		"t1": {
			Node: node, Attempts: 3, ExitCode: 0, Elapsed: time.Millisecond, Stdout: []byte("out\xff"), Stderr: []byte("err"), StdoutBytes: 40, StderrBytes: 3, StdoutFile: "/r/out", StderrFile: "/r/err",
			OutputDir: "/r/t1", Outputs: []OutputFile{{Name: "a.pt", Size: 3, SHA256: "abc"}}, Truncated: true,
		},
		"t2": {Index: 1, Node: noPrice, Attempts: 2, ExitCode: -1, Err: failed},
		"t9": {ExitCode: -1, Err: &TaskError{Name: "task 0", Cause: CauseCancelled, ExitCode: -1}, function: "f"},
	}
}

// writeGolden writes a journal with the content of goldenJournal, in the same order.
func writeGolden(t *testing.T, path string) {
	j := recorder{journal.Create(path, formOf(goldenSpec), "/r", func(err error) { t.Error(err) })}
	j.AddEnvironment(journal.Environment{Node: "p-0", Env: map[string]string{"A": "b\xff"}, Path: []string{"/bin"}})
	j.AddWorker(journal.Worker{Node: "p-1", Name: "w1", Binary: "/bin/w", Starts: 2})
	j.AddUpload(journal.Upload{Local: "/up", Remote: "up", Links: transfer.SkipOutside})
	j.AddUpload(journal.Upload{Local: "/f", Remote: "f", File: true})
	calls := goldenTasks()
	byID := map[string]*unit{}
	for i, units := range calls {
		time.Sleep(time.Second)
		j.begin(units, i == 4)
		for _, u := range units {
			byID[u.id] = u
		}
	}
	byID["t9"].alone = false
	again := byID["t4"]
	again.Attempts, again.Failures, again.Losses, again.usd, again.unpriced = 3, 1, 2, 0.25, true
	j.tried(again)
	j.delivered(byID["t5"], byID["t8"])
	for _, id := range []string{"t3", "t1", "t2", "t9"} {
		j.concluded(byID[id], goldenResults()[id], func() {})
	}
	j.Close()
}

// A journal is written with the same bytes as by earlier versions.
func TestJournalIsWrittenAsBefore(t *testing.T) {
	want, err := os.ReadFile(goldenJournal)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tasks")
		writeGolden(t, path)
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// Three lines of trainings follow, which package journal compares.
		after, same := bytes.CutPrefix(want, got)
		if lines := bytes.Count(after, []byte(`{"is":"`)); !same || lines != 3 || bytes.Count(after, []byte(`{"is":"train"}`)) != lines {
			t.Errorf("%q\nis not\n%q", got, want)
		}
	})
}

// A journal of an earlier version is read, and each task and result in it has its old value.
func TestJournalOfBeforeIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks")
	if b, err := os.ReadFile(goldenJournal); err != nil || os.WriteFile(path, b, 0o600) != nil {
		t.Fatal(err)
	}
	var form specForm
	j, s, err := journal.Open(path, &form, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if !reflect.DeepEqual(form, specForm{Spec: goldenSpec}) || s.ResultsDir != "/r" || s.LastTask != 9 {
		t.Errorf("%+v, results in %q, last task %d", form, s.ResultsDir, s.LastTask)
	}
	want := map[string]*unit{}
	for _, units := range goldenTasks() {
		for _, u := range units {
			want[u.id] = u
		}
	}
	results := goldenResults()
	if len(s.Tasks) != len(want)-2 {
		t.Errorf("%d tasks", len(s.Tasks))
	}
	for _, k := range s.Tasks {
		u := want[k.Unit.ID]
		task, missing := taskOf(k.Task, map[string]Secret{"KEY": "sesame"})
		if (missing == nil) != (u.task.call == nil && u.id != "t2") {
			t.Errorf("%s: %v", u.id, missing)
		}
		if k.Unit.Label != u.label || k.Unit.Index != u.index || (k.Unit.Pin == "") != (u.pin == nil) || u.pin != nil && (k.Unit.Pin != u.pin.Node.Name() || len(k.Broadcast.Members) != 2 || k.Broadcast.Members[u.index] != u.pin.Node.Name()) {
			t.Errorf("%s: %+v", u.id, k.Unit)
		}
		sameTask(t, u.id, task, u.task)
		if since := k.Since(); since.Before(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) || since.After(time.Date(2000, 1, 1, 0, 0, 6, 0, time.UTC)) {
			t.Errorf("%s began %v", u.id, since)
		}
		if tries := (journal.Tries{ID: "t4", Attempts: 3, Failures: 1, Losses: 2, USD: 0.25, Unpriced: true, At: k.Tries.At}); u.id == "t4" && k.Tries != tries {
			t.Errorf("%+v", k.Tries)
		}
		r, ended := results[u.id]
		if (k.Outcome != nil) != ended {
			t.Fatalf("%s has ended: %t", u.id, ended)
		}
		if ended {
			sameResult(t, u.id, resultOf(k.Outcome, u.index, nodeAt(s.Location(k.Outcome)), k.Task.Function), r)
		}
	}
	if got := s.Environments["p-0"]; got.Env["A"] != "b\xff" || !reflect.DeepEqual(got.Path, []string{"/bin"}) {
		t.Errorf("%+v", got)
	}
	if got := s.Workers["p-1"]; got.Name != "w1" || got.Binary != "/bin/w" || got.Starts != 2 {
		t.Errorf("%+v", got)
	}
	if want := []journal.Upload{{Local: "/up", Remote: "up", Links: transfer.SkipOutside}, {Local: "/f", Remote: "f", File: true}}; !reflect.DeepEqual(s.Uploads, want) {
		t.Errorf("%+v", s.Uploads)
	}
}

func sameTask(t *testing.T, id string, got, want Task) {
	t.Helper()
	if (got.call == nil) != (want.call == nil) {
		t.Fatalf("%s calls a function: %t", id, want.call != nil)
	}
	if got.call != nil {
		a, err := got.call.encode()
		b, _ := want.call.encode()
		if err != nil || got.call.function != want.call.function || !reflect.DeepEqual(a, b) {
			t.Errorf("%s is called with %q, %v, instead of %q", id, a, err, b)
		}
	}
	got.call, want.call = nil, nil
	if id == "t2" { // its input was too large for a journal
		want.Stdin = nil
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %#v\nis not\n%#v", id, got, want)
	}
}

func sameResult(t *testing.T, id string, got, want Result) {
	t.Helper()
	a, _ := errors.AsType[*TaskError](got.Err)
	b, _ := errors.AsType[*TaskError](want.Err)
	if (a == nil) != (b == nil) {
		t.Fatalf("%s failed as %v", id, got.Err)
	}
	if a != nil {
		if a.Error() != b.Error() || errors.Is(a, ErrOutOfMemory) != errors.Is(b, ErrOutOfMemory) || errors.Is(a, ErrQuota) {
			t.Errorf("%s failed as %v", id, a)
		}
		x, y := *a, *b
		x.Err, y.Err = nil, nil
		if !reflect.DeepEqual(x, y) {
			t.Errorf("%s failed as %+v, not as %+v", id, x, y)
		}
	}
	got.Err, want.Err = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v\nis not\n%+v", id, got, want)
	}
}
