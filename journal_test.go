package gputrain

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

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

// A program that attaches to a pool replaces its nodes in the network that its spec asked for.
func TestJournalHasTheNetwork(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.tasks")
	journal.Create(path, formOf(Spec{Nodes: 2, Network: NetworkPrivate}), "", func(err error) { t.Error(err) }).Close()
	var form specForm
	j, _, err := journal.Open(path, &form, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if form.Network != NetworkPrivate || !form.Query().Joined() {
		t.Errorf("%+v", form)
	}
}

// A journal has the names of Spec.Secrets, and not their values.
func TestJournalHasNamesOfSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.tasks")
	spec := Spec{Nodes: 2, Secrets: map[string]Secret{"HF_TOKEN": "sesame", "API_KEY": "hunter2"}}
	journal.Create(path, formOf(spec), "", func(err error) { t.Error(err) }).Close()
	if b, _ := os.ReadFile(path); strings.Contains(string(b), "sesame") || strings.Contains(string(b), "hunter2") {
		t.Errorf("the journal contains a secret: %q", b)
	}
	var form specForm
	j, _, err := journal.Open(path, &form, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if form.Secrets != nil || form.Nodes != 2 || !slices.Equal(form.SecretNames, []string{"API_KEY", "HF_TOKEN"}) {
		t.Errorf("%+v", form)
	}
	got := given(form.SecretNames, map[string]Secret{"HF_TOKEN": "again", "TASKS": "own"})
	if !maps.Equal(got.values, map[string]Secret{"HF_TOKEN": "again"}) || !slices.Equal(got.missing, []string{"API_KEY"}) {
		t.Errorf("%d known, %v missing", len(got.values), got.missing)
	}
}

// A task's accelerators are in the journal, in a field that the forms of other tasks do not have.
func TestJournalOfAccelerators(t *testing.T) {
	want := Cmd("true")
	want.Accelerators = 3
	form := taskForm(want)
	b, err := cbor.Marshal(form)
	if err != nil || !bytes.HasSuffix(b, []byte("\x6cAccelerators\x03")) {
		t.Errorf("%q, %v", b, err)
	}
	if got, missing := taskOf(form, nil); missing != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, missing)
	}
	want.Accelerators = 0
	if b, err := cbor.Marshal(taskForm(want)); err != nil || bytes.Contains(b, []byte("Accelerators")) {
		t.Errorf("%q, %v", b, err)
	}
}

// The name of an attempt on its node has what it holds there.
func TestNodeIDs(t *testing.T) {
	for id, want := range map[string][]string{
		"t12-a3-s0": {"t12", "3", "0", ""}, "t1-a1-d9": {"t1", "1", "", "9"}, "t1-a1-dg00v": {"t1", "1", "", "g00v"},
		"t1-a1": nil, "t1-a1-s": nil, "t1-a1-d": nil, "t1-a1-s1-d1": nil, "mps-g1": nil, "t1-a1-dA": nil,
	} {
		if m := nodeIDPattern.FindStringSubmatch(id); (m == nil) != (want == nil) || m != nil && !slices.Equal(m[1:], want) {
			t.Errorf("%s: %q", id, m)
		}
	}
}

// A task is the same after its record was written and read.
func TestTaskIsReadAsItWas(t *testing.T) {
	task := Task{
		Name: "n", Script: "s", Dir: "d", Env: map[string]string{"E": "e"}, Secrets: map[string]Secret{"KEY": "sesame"}, Stdin: []byte("in"), TTY: true,
		Timeout: time.Second, Retries: 1, HoldsLease: true, Outputs: []string{"o"}, SyncEvery: time.Minute, DropIfCancelled: true, Critical: true,
		Accelerators: 2, Target: OnRank(2), StallTimeout: time.Hour,
		Checkpoints: Checkpoints{Dir: "c", To: "/t", Keep: 3, Every: time.Minute},
	}
	j, path := newTestRecorder(t)
	j.begin([]*unit{{id: "t1", label: "n", task: task}}, false)
	j.Close()
	got, missing := taskOf(openTestJournal(t, path).Tasks[0].Task, task.Secrets)
	if !reflect.DeepEqual(got, task) || missing != nil {
		t.Errorf("%+v, %v", got, missing)
	}
	fields := reflect.TypeFor[Task]()
	for i := range fields.NumField() {
		if f := fields.Field(i); f.IsExported() && f.Name != "Args" && reflect.ValueOf(task).Field(i).IsZero() {
			t.Errorf("%s is not tried", f.Name)
		}
	}
}
