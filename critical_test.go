package gputrain

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The error of a call names the failure of its critical task first, and only counts what that has cancelled.
func TestJoinedResultsOfACriticalTask(t *testing.T) {
	first := &TaskError{Index: 11, Name: "task 11", Attempt: 1, Cause: CauseExit, ExitCode: 3, Tail: "loss is NaN"}
	echo := func(i int) error {
		return &TaskError{Index: i, Name: fmt.Sprintf("task %d", i), Attempt: 1, Cause: CauseCancelled, ExitCode: -1, Err: &criticalError{first}}
	}
	for _, others := range []int{0, 1, 11} {
		results := make([]Result, 14)
		for i := range others {
			results[i].Err = &TaskError{Index: i, Name: fmt.Sprintf("task %d", i), Attempt: 1, Cause: CauseTimeout, ExitCode: -1}
		}
		results[11].Err, results[12].Err, results[13].Err = first, echo(12), echo(13)
		err := joinResults(results)
		failed, ok := errors.AsType[*TaskError](err)
		if !ok || failed != first || errors.Is(err, context.Canceled) || errors.Is(err, ErrTimeout) != (others > 0) {
			t.Errorf("%d others: %v", others, err)
		}
		text := err.Error()
		if strings.Index(text, "task 11 on node 0: exit code 3") > 100 || !strings.HasSuffix(text, "\n2 other tasks cancelled because of the first failure, of a critical task") || strings.Count(text, "task 12")+strings.Count(text, "task 13") > 0 {
			t.Errorf("%d others: %q", others, text)
		}
		if others > 9 && !strings.HasPrefix(text, "12 of 14 tasks failed (1 exit, 11 timed out); 10 of them:\ntask 11 ") {
			t.Errorf("%q", text)
		}
	}
	if err := joinResults([]Result{{}, {}}); err != nil {
		t.Error(err)
	}
	if err := echo(1); !errors.Is(err, context.Canceled) || err.Error() != "task 1 on node 0: cancelled: a critical task of the call has failed: task 11 on node 0: exit code 3" {
		t.Errorf("%q", err)
	}
	deadline := &TaskError{Cause: CauseFunction, Err: context.DeadlineExceeded}
	if err := (&TaskError{Cause: CauseCancelled, Err: &criticalError{deadline}}); !errors.Is(err, context.Canceled) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// What tasks say of their outputs, and what those were, is in the journal.
func TestRecorderKeepsOutputs(t *testing.T) {
	j, path := newTestRecorder(t)
	task := Cmd("train")
	task.Outputs, task.SyncEvery, task.DropIfCancelled, task.Critical = []string{"*.pt"}, time.Minute, true, true
	files := []OutputFile{{Name: "a.pt", Size: 3, SHA256: "abc", Attempt: 2}}
	units := []*unit{{id: "t1", task: Cmd("true")}, {id: "t2", index: 1, task: task}}
	j.begin(units, false)
	units[1].Attempts, units[1].brought = 2, outputs{"/r/t2-a2", files}
	j.tried(units[1])
	j.begin([]*unit{{id: "t3", task: Cmd("true")}}, false)
	j.concluded(units[0], Result{OutputDir: "/r/t1-a2", Outputs: files}, func() {})
	j.Close()
	s := openTestJournal(t, path)
	if len(s.Tasks) != 3 || s.Tasks[0].Call != "t1" || s.Tasks[1].Call != "t1" || s.Tasks[2].Call != "" {
		t.Fatalf("%+v", s.Tasks)
	}
	if got, missing := taskOf(s.Tasks[1].Task, nil); missing != nil || !reflect.DeepEqual(got, task) {
		t.Errorf("%+v, %v", got, missing)
	}
	if got := outputsOf(s.Tasks[1].Tries.Brought); !reflect.DeepEqual(got, units[1].brought) {
		t.Errorf("%+v", got)
	}
	if r := resultOf(s.Tasks[0].Outcome, 0, Node{}, ""); r.OutputDir != "/r/t1-a2" || !reflect.DeepEqual(r.Outputs, files) {
		t.Errorf("%+v", r)
	}
	if o := outputsOf(nil); o.form() != nil {
		t.Errorf("%+v", o)
	}
}

// A critical task that failed before its program died cancels the others when they are taken up.
func TestAttachAfterACriticalFailure(t *testing.T) {
	c, _ := attaching(t, 1, func(c *Compute) {
		critical := Cmd("false")
		critical.Critical = true
		b, err := c.batch([]Task{critical, Cmd("true")})
		if err != nil {
			t.Fatal(err)
		}
		b.submit()
		c.Start(Cmd("true")) // of another call
		failure := &TaskError{Name: "task 0", Attempt: 1, Cause: CauseExit, ExitCode: 3}
		c.p.journal.concluded(b.units[0], Result{ExitCode: 3, Attempts: 1, Err: failure}, func() {})
	})
	jobs := c.Jobs()
	if len(jobs) != 3 {
		t.Fatalf("%d jobs", len(jobs))
	}
	c.p.resumption.queueRest(c.p)
	for i, want := range []Cause{CauseExit, CauseCancelled} {
		_, err := jobs[i].Wait()
		if failed, ok := errors.AsType[*TaskError](err); !ok || failed.Cause != want {
			t.Errorf("job %d: %v", i, err)
		}
	}
	select {
	case <-jobs[2].Done():
		t.Errorf("a task of another call ended: %v", jobs[2].result.Err)
	default:
	}
	jobs[2].Cancel()
	if _, err := jobs[2].Wait(); err == nil {
		t.Error("it was not cancelled")
	}
}
