package gputrain

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/transfer"
)

func newTestJournal(t *testing.T) (*journal, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.tasks")
	j := beginJournal(path, keptSpec{Spec: Spec{Nodes: 2}}, func(err error) { t.Error(err) })
	t.Cleanup(j.close)
	return j, path
}

// What was handed over, and what was not, is told apart; a journal that is mostly
// of the former is made short, and loses nothing of the latter.
func TestJournalKeepsWhatIsNotHandedOver(t *testing.T) {
	j, path := newTestJournal(t)
	waits := &unit{id: "t1", label: "waits", task: Task{Args: []string{"echo", "\xff\x00"[:1]}, Stdin: []byte("in"), Secrets: map[string]Secret{"KEY": "sesame"}}}
	ended := &unit{id: "t2", label: "ended", index: 1, task: Cmd("true")}
	written := 0 // by one goroutine, which close waits for
	j.tasks([]*unit{waits, ended}, false)
	waits.attempts, waits.failures = 2, 1
	j.tried(waits)
	failure := &TaskError{Index: 1, Name: "ended", Cause: CauseTimeout, ExitCode: -1, Err: fmt.Errorf("no: %w", ErrOutOfMemory)}
	j.concluded(ended, Result{Index: 1, Stdout: []byte("out\xfe"), CostUSD: USD(0.5), Err: failure, Node: Node{Name: "p-0", Rank: 3, Accelerator: accelerators.A100()}}, func() { written++ })
	big := strings.Repeat("x", 1<<20)
	for i := range 2 * compactFrom >> 20 {
		u := &unit{id: fmt.Sprintf("t%d", i+3), task: Script(big)}
		j.tasks([]*unit{u}, true)
		j.concluded(u, Result{}, func() { written++ }) // which hands it over: it is alone
	}
	j.close()
	if want := 1 + 2*compactFrom>>20; written != want {
		t.Errorf("%d of %d are known to be written", written, want)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > compactFrom {
		t.Errorf("it is not made short: %v, %v", info.Size(), err)
	}
	if b, _ := os.ReadFile(path); strings.Contains(string(b), "sesame") {
		t.Error("the secret is in it")
	}
	again, s, err := readJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if len(s.tasks) != 2 || s.spec.Spec.Nodes != 2 {
		t.Fatalf("%d tasks, %+v", len(s.tasks), s.spec)
	}
	task, missing := s.tasks[0].task.restored(nil)
	if missing == nil || !strings.Contains(missing.Error(), "KEY") || task.Args[1] != "\xff" || string(task.Stdin) != "in" || s.tasks[0].tries.Attempts != 2 {
		t.Errorf("%+v, %v", task, missing)
	}
	if task, missing = s.tasks[0].task.restored(map[string]Secret{"KEY": "sesame"}); missing != nil || task.Secrets["KEY"] != "sesame" {
		t.Errorf("with the secret: %v", missing)
	}
	r := s.tasks[1].outcome.result(1, s.places[s.tasks[1].outcome.Where].node(), "")
	te, ok := r.Err.(*TaskError)
	if !ok || te.Cause != CauseTimeout || te.Error() != failure.Error() || !isAll(te, ErrOutOfMemory, ErrTimeout) || string(r.Stdout) != "out\xfe" || r.CostUSD != USD(0.5) || r.Node.Rank != 3 || te.Node.Accelerator != accelerators.A100() {
		t.Errorf("%+v", r)
	}
}

// A journal says since when its tasks can have run, which bounds what nodes say of that: a
// task since it was asked for, and one that was tried since its last attempt was over.
func TestJournalSaysSinceWhenTasksCanHaveRun(t *testing.T) {
	j, path := newTestJournal(t)
	begun := now()
	fresh, tried := &unit{id: "t1", task: Cmd("true")}, &unit{id: "t2", task: Cmd("false")}
	j.tasks([]*unit{fresh, tried}, false)
	asked := now()
	time.Sleep(time.Millisecond)
	failed := now()
	j.tried(tried)
	j.close()
	again, s, err := readJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if since := s.tasks[0].since(); since.Before(begun.Round(0)) || since.After(asked.Round(0)) {
		t.Errorf("%v, between %v and %v", since, begun, asked)
	}
	if since := s.tasks[1].since(); since.Before(failed.Round(0)) {
		t.Errorf("%v, after %v", since, failed)
	}
}

func isAll(err *TaskError, kinds ...error) bool {
	for _, kind := range kinds {
		if !containsKind(err, kind) {
			return false
		}
	}
	return true
}

func containsKind(err error, kind error) bool {
	for _, name := range kindsOf(err) {
		if errorKinds[name] == kind {
			return true
		}
	}
	return false
}

// A program that comes back neither removes nor replaces the journal of the one
// that has taken its pool.
func TestJournalOfAnOlderProgram(t *testing.T) {
	old, path := newTestJournal(t)
	old.failed = nil
	now, _, err := readJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	defer now.close()
	now.tasks([]*unit{{id: "t1", task: Cmd("true")}}, false)
	big := strings.Repeat("x", 1<<20)
	for i := range 2 * compactFrom >> 20 {
		u := &unit{id: fmt.Sprintf("t%d", i), task: Script(big)}
		old.tasks([]*unit{u}, true)
		old.concluded(u, Result{}, func() {})
	}
	old.giveUp(os.ErrInvalid)
	now.close()
	again, s, err := readJournal(path)
	if err != nil || len(s.tasks) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	again.close()
}

// A journal that cannot go on is removed: with a gap it would have tasks done twice.
func TestJournalThatCannotGoOn(t *testing.T) {
	j, path := newTestJournal(t)
	told := 0
	j.failed = func(error) { told++ }
	j.giveUp(os.ErrInvalid)
	j.tasks([]*unit{{id: "t1", task: Cmd("true")}}, false)
	if _, _, err := readJournal(path); told != 1 || err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("told %d times, %v", told, err)
	}
}

// Journals of before have uploads without what is done with links.
func TestKeptUploads(t *testing.T) {
	type before struct{ Local, Remote string }
	for _, tt := range []struct {
		line any
		want keptFiles
	}{
		{before{"/up", "up"}, keptFiles{Local: "/up", Remote: "up"}},
		{keptFiles{Local: "/up", Remote: "up", Links: transfer.SkipOutside}, keptFiles{Local: "/up", Remote: "up", Links: transfer.SkipOutside}},
		{keptFiles{"/up", "up", transfer.FollowOutside, true}, keptFiles{"/up", "up", transfer.FollowOutside, true}},
	} {
		line, err := newLine(keptUpload, tt.line)
		if err != nil {
			t.Fatal(err)
		}
		s, begun := &keptPoolState{}, false
		if err := s.always(line, keptUpload, &begun); err != nil || len(s.uploads) != 1 || s.uploads[0] != tt.want {
			t.Errorf("%+v came back as %+v, %v", tt.line, s.uploads, err)
		}
	}
}
