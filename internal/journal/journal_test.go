package journal

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/record"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/providers/driver"
)

type testSpec struct{ Nodes int }

func newTestJournal(t *testing.T) (*Journal, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.tasks")
	j := Create(path, testSpec{Nodes: 2}, "/results", func(err error) { t.Error(err) })
	t.Cleanup(j.Close)
	return j, path
}

// reopen reads a journal that another program wrote.
func reopen(t *testing.T, path string) *State {
	t.Helper()
	var spec testSpec
	j, s, err := Open(path, &spec, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	j.Close()
	if spec.Nodes != 2 || s.ResultsDir != "/results" {
		t.Errorf("the spec is %+v, the results are in %q", spec, s.ResultsDir)
	}
	return s
}

func batch(t Task, ids ...string) Batch {
	b := Batch{Task: t}
	for i, id := range ids {
		b.Units = append(b.Units, Unit{ID: id, Index: i})
	}
	return b
}

func command(args ...string) Task { return Task{Args: args} }

func ids(s *State) (ids []string) {
	for _, p := range s.Tasks {
		ids = append(ids, p.Unit.ID)
	}
	return ids
}

// fill records tasks that are delivered, until the file would have twice compactSize.
func fill(j *Journal) {
	big := Task{Script: strings.Repeat("x", 1<<20)}
	for i := range 2 * compactSize >> 20 {
		id := fmt.Sprintf("t%d", 100+i)
		j.Begin(batch(big, id))
		j.Delivered(id)
	}
}

// A journal that is mostly about delivered tasks is compacted, and keeps the others.
func TestCompactionKeepsWhatIsNotDelivered(t *testing.T) {
	j, path := newTestJournal(t)
	waits := Task{Args: []string{"echo", "\xff"}, Stdin: []byte("in"), Secrets: []string{"KEY"}}
	j.Begin(batch(waits, "t1"), batch(command("true"), "t2"))
	j.Tried(Tries{ID: "t1", Attempts: 2, Failures: 1})
	written := false
	o := &Outcome{ID: "t2", USD: 0.5, More: &OutcomeDetails{Stdout: []byte("out\xfe"), Failure: &Failure{Name: "ended", Text: "no"}}}
	j.Concluded(o, Location{Name: "p-0", Rank: 3, USD: Price{driver.USD(2)}}, func() { written = true })
	fill(j)
	j.Close()
	if !written {
		t.Error("a result is not known to be written")
	}
	if info, err := os.Stat(path); err != nil || info.Size() > compactSize {
		t.Errorf("it is not compacted: %v, %v", info.Size(), err)
	}
	s := reopen(t, path)
	if len(s.Tasks) != 2 {
		t.Fatalf("tasks %v", ids(s))
	}
	first, second := s.Tasks[0], s.Tasks[1]
	if first.Task.Args[1] != "\xff" || string(first.Task.Stdin) != "in" || !slices.Equal(first.Task.Secrets, waits.Secrets) || first.Tries.Attempts != 2 || first.Tries.Failures != 1 || first.Outcome != nil {
		t.Errorf("%+v", first)
	}
	got := second.Outcome
	if got == nil || got.USD != 0.5 || string(got.More.Stdout) != "out\xfe" || got.More.Failure.Err().Error() != "no" {
		t.Fatalf("%+v", got)
	}
	if at := s.Location(got); at.Rank != 3 || at.USD.Price != driver.USD(2) {
		t.Errorf("it ended at %+v", at)
	}
}

// A damaged file is not compacted to its readable part: the journal is given up.
func TestCompactionOfADamagedFile(t *testing.T) {
	j, path := newTestJournal(t)
	failures := 0
	j.failed = func(error) { failures++ }
	j.Begin(batch(command("true"), "t1"))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(whole, []byte("tasks"), []byte("toads"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	fill(j)
	j.Close()
	if _, err := os.Stat(path); failures != 1 || !os.IsNotExist(err) {
		t.Errorf("it has failed %d times, the file: %v", failures, err)
	}
}

// A delivered task is not run again, even if other tasks of its batch are open. Its ID is not used
// again, even if nothing else is left of it: its output is in files of that name.
func TestDeliveredTasksDoNotComeBack(t *testing.T) {
	j, path := newTestJournal(t)
	j.Begin(batch(command("true"), "t7", "t8"))
	j.Delivered("t7")
	fill(j)
	j.Close()
	const last = 100 + 2*compactSize>>20 - 1
	for _, open := range []string{"t8", "t8 t164", "t8 t164"} { // compacted, and read by one program after another
		s := reopen(t, path)
		if s.LastTask < last {
			t.Errorf("the last task was %d, not %d", s.LastTask, last)
		}
		if open == "t8" {
			next, _, err := Open(path, &testSpec{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			next.Begin(batch(command("true"), taskID(s.LastTask+1)))
			next.Close()
		} else if got := strings.Join(ids(s), " "); got != open {
			t.Errorf("tasks %q", got)
		}
	}
}

// A file without open tasks is compacted at a much smaller size than one with open tasks.
func TestCompactionOfAJournalWithoutOpenTasks(t *testing.T) {
	j, path := newTestJournal(t)
	j.Begin(batch(Task{Script: strings.Repeat("x", clearSize)}, "t1"))
	j.Delivered("t1")
	j.Close()
	if info, err := os.Stat(path); err != nil || info.Size() > clearSize/2 {
		t.Errorf("it is not compacted: %v, %v", info.Size(), err)
	}
	if s := reopen(t, path); s.Tasks != nil {
		t.Errorf("tasks %v", ids(s))
	}
}

// A program that comes back neither removes nor replaces the journal of the program that has taken
// over its pool.
func TestJournalOfAnOlderProgram(t *testing.T) {
	old, path := newTestJournal(t)
	old.failed = nil
	var spec testSpec
	newer, _, err := Open(path, &spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	newer.Begin(batch(command("true"), "t1"))
	fill(old)
	old.giveUp(os.ErrInvalid)
	newer.Close()
	if s := reopen(t, path); !slices.Equal(ids(s), []string{"t1"}) {
		t.Errorf("tasks %v", ids(s))
	}
}

// A journal that cannot be continued is removed: with a gap, tasks would run twice.
func TestJournalThatCannotGoOn(t *testing.T) {
	j, path := newTestJournal(t)
	failures := 0
	j.failed = func(error) { failures++ }
	j.giveUp(os.ErrInvalid)
	j.giveUp(os.ErrInvalid)
	j.Begin(batch(command("true"), "t1"))
	written := false
	j.Concluded(&Outcome{ID: "t1"}, Location{}, func() { written = true })
	j.Close()
	if _, _, err := Open(path, &testSpec{}, nil); failures != 1 || !written || err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("it has failed %d times, a result is released: %t, %v", failures, written, err)
	}
}

// A journal whose file cannot be created reports that, and records nothing.
func TestJournalThatCannotBeMade(t *testing.T) {
	failures := 0
	j := Create(filepath.Join(t.TempDir(), "missing", "p.tasks"), testSpec{}, "", func(error) { failures++ })
	j.Begin(batch(command("true"), "t1"))
	j.Delivered("t1")
	j.Close()
	if failures != 1 {
		t.Errorf("it has failed %d times", failures)
	}
}

// A nil journal and a closed one release the node of every result.
func TestJournalWithoutAFile(t *testing.T) {
	closed, _ := newTestJournal(t)
	closed.Close()
	for name, j := range map[string]*Journal{"nil": nil, "closed": closed} {
		written := 0
		j.AddEnvironment(Environment{})
		j.AddWorker(Worker{})
		j.AddUpload(Upload{})
		j.Begin(batch(command("true"), "t1"))
		j.Tried(Tries{ID: "t1"})
		j.Concluded(&Outcome{ID: "t1"}, Location{Name: "p-0"}, func() { written++ })
		j.Delivered("t1")
		j.Close()
		if written != 1 {
			t.Errorf("a %s journal releases a result %d times", name, written)
		}
	}
}

// Callers block while too much is pending, and every result is written in the end.
func TestManyResultsAreAllWritten(t *testing.T) {
	j, path := newTestJournal(t)
	const tasks, size = 24, 1 << 20
	var names []string
	for i := range tasks {
		names = append(names, fmt.Sprintf("t%d", i))
	}
	j.Begin(batch(command("true"), names...))
	var order []string
	for _, id := range names {
		j.Concluded(&Outcome{ID: id, Head: make([]byte, size)}, Location{Name: "p-0"}, func() { order = append(order, id) })
		j.mu.Lock()
		if j.pendingBytes > maxPending+2*size {
			t.Errorf("%d bytes are pending", j.pendingBytes)
		}
		j.mu.Unlock()
	}
	j.Close()
	if !slices.Equal(order, names) {
		t.Errorf("written in the order %v", order)
	}
	s := reopen(t, path)
	for _, p := range s.Tasks {
		if p.Outcome == nil || len(p.Outcome.Head) != size || s.Location(p.Outcome).Name != "p-0" {
			t.Errorf("%s has no result", p.Unit.ID)
		}
	}
	if len(s.Tasks) != tasks {
		t.Errorf("%d tasks", len(s.Tasks))
	}
}

// A result is not written if its task was delivered before its line was written.
func TestDeliveredResultsAreNotWritten(t *testing.T) {
	j, path := newTestJournal(t)
	synctest.Test(t, func(*testing.T) { // nothing is written until the test waits
		j.Begin(batch(command("true"), "t1", "t2"))
		j.Concluded(&Outcome{ID: "t1", Head: []byte("precious")}, Location{}, func() {})
		j.Delivered("t1", "t3", "t1")
		j.Close()
	})
	if b, _ := os.ReadFile(path); bytes.Contains(b, []byte("precious")) {
		t.Error("the result is in the file")
	}
	if s := reopen(t, path); !slices.Equal(ids(s), []string{"t2"}) {
		t.Errorf("tasks %v", ids(s))
	}
}

// A location is written once, and again after each change.
func TestLocationsAreWrittenOnce(t *testing.T) {
	j, path := newTestJournal(t)
	at := Location{Name: "p-0", Rank: 1, USD: Price{driver.USD(0)}, Labels: map[string]string{"zone": "a"}}
	moved := at
	moved.Rank, moved.USD = 0, Price{}
	j.Begin(batch(command("true"), "t1", "t2", "t3", "t4"))
	for i, l := range []Location{at, at, moved, {}} {
		j.Concluded(&Outcome{ID: fmt.Sprintf("t%d", i+1), USD: math.NaN()}, l, func() {})
	}
	j.Close()
	s := reopen(t, path)
	if len(s.locations) != 2 {
		t.Errorf("%d locations", len(s.locations))
	}
	for i, want := range []Location{at, at, moved, {}} {
		got := s.Location(s.Tasks[i].Outcome)
		if got.Name != want.Name || got.Rank != want.Rank || got.USD != want.USD || got.Labels["zone"] != want.Labels["zone"] {
			t.Errorf("%+v is not %+v", got, want)
		}
	}
}

// An argument or a stdin that is too large is not recorded, and the task cannot be started again.
func TestTooLargeToKeep(t *testing.T) {
	large := make([]byte, MaxBytes+1)
	j, path := newTestJournal(t)
	stdin, arg := command("cat"), Task{Function: "f", Arg: NewArg(codec.Body{Head: large[:1], Parts: [][]byte{large[1:]}}, nil)}
	stdin.Stdin = large
	most := command("cat")
	most.Stdin = large[1:]
	j.Begin(batch(stdin, "t1"), batch(arg, "t2"), batch(Task{Function: "f", Arg: NewArg(codec.Body{}, os.ErrInvalid)}, "t3"), batch(most, "t4"))
	j.Close()
	s := reopen(t, path)
	for i, p := range s.Tasks {
		if err := p.Task.Missing(); (err == nil) != (i == 3) || err != nil && !strings.Contains(err.Error(), "16 MiB") {
			t.Errorf("%s: %v", p.Unit.ID, err)
		}
	}
}

// A task cannot have run before it was submitted, nor before its previous attempt ended.
func TestSince(t *testing.T) {
	j, path := newTestJournal(t)
	b := batch(command("true"), "t1", "t2")
	b.At = 1000
	j.Begin(b)
	j.Tried(Tries{ID: "t2", At: 2000})
	j.Close()
	s := reopen(t, path)
	if a, b := s.Tasks[0].Since(), s.Tasks[1].Since(); !a.Equal(time.Unix(0, 1000)) || !b.Equal(time.Unix(0, 2000)) {
		t.Errorf("%v and %v", a, b)
	}
}

// Journals of earlier versions have uploads without an option for links.
func TestUploads(t *testing.T) {
	type before struct{ Local, Remote string }
	for _, tt := range []struct {
		line any
		want Upload
	}{
		{before{"/up", "up"}, Upload{Local: "/up", Remote: "up"}},
		{Upload{Local: "/up", Remote: "up", Links: transfer.SkipOutside}, Upload{Local: "/up", Remote: "up", Links: transfer.SkipOutside}},
		{Upload{"/up", "up", transfer.FollowOutside, true}, Upload{"/up", "up", transfer.FollowOutside, true}},
	} {
		line, err := newLine(uploadLine, tt.line)
		if err != nil {
			t.Fatal(err)
		}
		s := newState()
		if err := s.add(line); err != nil || len(s.Uploads) != 1 || s.Uploads[0] != tt.want {
			t.Errorf("%+v came back as %+v, %v", tt.line, s.Uploads, err)
		}
	}
}

// An incomplete last line is left out. A file without its first line, or with damage, is refused
// and not changed.
func TestOpenOfBrokenFiles(t *testing.T) {
	j, path := newTestJournal(t)
	j.Begin(batch(command("true"), "t1"))
	j.Begin(batch(command("true"), "t2"))
	j.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.Index(whole[1:], []byte(headStart+"tasks")) - len("00000000 ")
	for name, tt := range map[string]struct {
		content []byte
		refused string
		tasks   []string
	}{
		"torn":      {whole[:len(whole)-3], "", []string{"t1"}},
		"headless":  {whole[bytes.LastIndexByte(whole[:first], '\n')+1:], "it does not describe the pool", nil},
		"empty":     {nil, "it does not describe the pool", nil},
		"damaged":   {bytes.Replace(whole, []byte("tasks"), []byte("toads"), 1), "damaged", nil},
		"undamaged": {whole, "", []string{"t1", "t2"}},
	} {
		if err := os.WriteFile(path, tt.content, 0o600); err != nil {
			t.Fatal(err)
		}
		j, s, err := Open(path, &testSpec{}, nil)
		if tt.refused != "" {
			if err == nil || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%s: %v", name, err)
			}
			if now, _ := os.ReadFile(path); !bytes.Equal(now, tt.content) {
				t.Errorf("%s: the file has changed", name)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		j.Close()
		again, s2, err := Open(path, &testSpec{}, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again.Close()
		if !slices.Equal(ids(s), tt.tasks) || !slices.Equal(ids(s2), tt.tasks) || s2.LastTask != s.LastTask {
			t.Errorf("%s: tasks %v, and %v after a rewrite", name, ids(s), ids(s2))
		}
	}
}

// goldenTrainings are those of the golden file, line by line.
var goldenTrainings = []Training{
	{ID: "g1", Name: "over", Over: true},
	{
		ID: "g2", Name: "llm", Began: 1, Attempt: 1, Nodes: []string{"p-0", "p-1"}, Shares: 4, Processes: 2, Port: 29500, Launcher: 1, Function: true,
		Prepared: 2, Released: 3, Resumed: "step-10", Checks: 1, Restarts: 1, Fruitless: 1, Step: 20,
	},
	{
		ID: "g2", Name: "llm", Began: 1, Attempt: 2, Nodes: []string{"p-0", ""}, Shares: 4, Processes: 2, Port: 29501, Launcher: 1, Prepared: 12, Released: 13,
		Resumed: "step-20", Checks: 2, Restarts: 2, Fruitless: 1, Step: 25, Past: []PastAttempt{{
			Number: 1, Nodes: []Location{{Rank: 0, Name: "p-0"}, {Rank: 1, Name: "p-1"}}, From: 5, To: 9, Resumed: "step-10", First: 11, Last: 20, Failure: "exit code 3",
		}},
	},
}

// The golden file was written by an earlier version, and is never generated again. Its content is read as it was
// written, and a program that continues it leaves out what was delivered.
func TestGolden(t *testing.T) {
	golden, err := os.ReadFile("testdata/golden")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "p.tasks")
	if err := os.WriteFile(path, golden, 0o600); err != nil {
		t.Fatal(err)
	}
	kinds := map[kind]int{}
	for r, err := range record.Read(path) {
		if err != nil {
			t.Fatal(err)
		}
		if kindOf(r) == trainingLine {
			if line, err := newLine(trainingLine, goldenTrainings[kinds[trainingLine]]); err != nil || !bytes.Equal(line.Body, r.Body) {
				t.Errorf("%q is not %q: %v", line.Body, r.Body, err)
			}
		}
		kinds[kindOf(r)]++
	}
	for k := range heads {
		if kinds[k] == 0 {
			t.Errorf("no line is a %s", k)
		}
	}
	for range 2 { // as it was, and as Open has rewritten it
		var spec testSpec
		j, s, err := Open(path, &spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		j.Close()
		if spec.Nodes != 2 || s.ResultsDir != "/r" || len(s.Environments) != 1 || s.Workers["p-1"].Starts != 2 || len(s.Uploads) != 2 || len(s.locations) != 2 {
			t.Errorf("%+v, %+v", spec, s)
		}
		if !slices.Equal(ids(s), []string{"t1", "t2", "t3", "t4", "t6", "t7", "t9"}) {
			t.Errorf("tasks %v", ids(s))
		}
		for _, p := range s.Tasks {
			if ended := map[string]bool{"t1": true, "t2": true, "t3": true, "t9": true}; (p.Outcome != nil) != ended[p.Unit.ID] {
				t.Errorf("%s has the outcome %+v", p.Unit.ID, p.Outcome)
			}
			if in := map[string]bool{"t6": true, "t7": true}; (p.Broadcast != nil) != in[p.Unit.ID] {
				t.Errorf("%s is of the broadcast %+v", p.Unit.ID, p.Broadcast)
			}
		}
		if n := len(s.Trainings); n == 0 || !reflect.DeepEqual(s.Trainings[n-1], goldenTrainings[2]) {
			t.Errorf("trainings %+v", s.Trainings)
		}
		if s.Tasks[4].Broadcast != s.Tasks[5].Broadcast {
			t.Error("the tasks of a broadcast do not share it")
		}
	}
	if left, err := os.ReadFile(path); err != nil || len(left) >= len(golden) {
		t.Errorf("%d of %d bytes are left, %v", len(left), len(golden), err)
	}
}
