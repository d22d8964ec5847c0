package gputrain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/journal"
	"github.com/gputrain/gputrain/providers/driver"
)

func newTestRecorder(t *testing.T) (recorder, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.tasks")
	r := recorder{journal.Create(path, Spec{Nodes: 2}, "", func(err error) { t.Error(err) })}
	t.Cleanup(r.Close)
	return r, path
}

func openTestJournal(t *testing.T, path string) *journal.State {
	t.Helper()
	var spec Spec
	j, s, err := journal.Open(path, &spec, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Close)
	if spec.Nodes != 2 {
		t.Errorf("the spec is %+v", spec)
	}
	return s
}

// Tasks that were not delivered are read back from the journal, without their secrets, and results
// with the kinds of their errors. The only task of a call is delivered when it ends.
func TestRecorderKeepsWhatIsNotDelivered(t *testing.T) {
	j, path := newTestRecorder(t)
	waits := &unit{id: "t1", label: "waits", task: Task{Args: []string{"echo", "\xff\x00"[:1]}, Stdin: []byte("in"), Secrets: map[string]Secret{"KEY": "sesame"}}}
	ended := &unit{id: "t2", label: "ended", index: 1, task: Cmd("true")}
	alone := &unit{id: "t3", task: Cmd("true")}
	written := 0 // by one goroutine, for which Close waits
	j.begin([]*unit{waits, ended}, false)
	waits.Attempts, waits.Failures = 2, 1
	j.tried(waits)
	failure := &TaskError{Index: 1, Name: "ended", Cause: CauseTimeout, ExitCode: -1, Err: fmt.Errorf("no: %w", ErrOutOfMemory)}
	j.begin([]*unit{alone}, true)
	j.concluded(alone, Result{}, func() { written++ })
	j.concluded(ended, Result{Index: 1, Stdout: []byte("out\xfe"), CostUSD: driver.USD(0.5), Err: failure, Node: Node{Name: "p-0", Rank: 3, Accelerator: accelerators.A100()}}, func() { written++ })
	j.Close()
	if written != 2 {
		t.Errorf("%d of 2 are known to be written", written)
	}
	if b, _ := os.ReadFile(path); strings.Contains(string(b), "sesame") {
		t.Error("the journal contains the secret")
	}
	s := openTestJournal(t, path)
	if len(s.Tasks) != 2 {
		t.Fatalf("%d tasks", len(s.Tasks))
	}
	task, missing := taskOf(s.Tasks[0].Task, nil)
	if missing == nil || !strings.Contains(missing.Error(), "KEY") || task.Args[1] != "\xff" || string(task.Stdin) != "in" || s.Tasks[0].Tries.Attempts != 2 {
		t.Errorf("%+v, %v", task, missing)
	}
	if task, missing = taskOf(s.Tasks[0].Task, map[string]Secret{"KEY": "sesame"}); missing != nil || task.Secrets["KEY"] != "sesame" {
		t.Errorf("with the secret: %v", missing)
	}
	o := s.Tasks[1].Outcome
	r := resultOf(o, 1, nodeAt(s.Location(o)), "")
	te, ok := r.Err.(*TaskError)
	if !ok || te.Cause != CauseTimeout || te.Error() != failure.Error() || !errors.Is(te, ErrOutOfMemory) || !errors.Is(te, ErrTimeout) || errors.Is(te, ErrLimit) || string(r.Stdout) != "out\xfe" || r.CostUSD != driver.USD(0.5) || r.Node.Rank != 3 || te.Node.Accelerator != accelerators.A100() {
		t.Errorf("%+v", r)
	}
}

// The journal bounds when a task's last attempt can have begun, which limits what nodes report: it
// began after the task was submitted, and after the attempt before it was over.
func TestRecorderKeepsSinceWhenTasksCanHaveRun(t *testing.T) {
	j, path := newTestRecorder(t)
	begun := time.Now()
	fresh, tried := &unit{id: "t1", task: Cmd("true")}, &unit{id: "t2", task: Cmd("false")}
	j.begin([]*unit{fresh, tried}, false)
	asked := time.Now()
	time.Sleep(time.Millisecond)
	failed := time.Now()
	j.tried(tried)
	j.Close()
	s := openTestJournal(t, path)
	if since := s.Tasks[0].Since(); since.Before(begun.Round(0)) || since.After(asked.Round(0)) {
		t.Errorf("%v, between %v and %v", since, begun, asked)
	}
	if since := s.Tasks[1].Since(); since.Before(failed.Round(0)) {
		t.Errorf("%v, after %v", since, failed)
	}
}
