package report

import (
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
)

// What an attempt has printed stands by itself: in a bundle in a folder of its own, and in a report under its own failure.
func TestOutputOfEachAttempt(t *testing.T) {
	run := sampleRun()
	task := &run.Tasks[3]
	task.Attempt = 2
	task.Lines = nil
	for _, l := range []struct {
		attempt int
		stderr  bool
		text    string
	}{{1, false, "loading once"}, {1, true, "ConnectionError: first"}, {2, false, "loading again"}, {2, true, "ValueError: second"}} {
		task.Lines = append(task.Lines, gputrain.Line{Time: t0, Task: "3", Attempt: l.attempt, Stderr: l.stderr, Text: l.text})
	}
	last := run.Failures[0]
	last.Attempt = 2
	run.Failures[0].Retried = true
	run.Failures = append(run.Failures, last)

	_, texts := files(t, bundleOf(run))
	for name, want := range map[string]string{
		"tasks/3/attempt-1/stdout.txt": "loading once\n", "tasks/3/attempt-1/stderr.txt": "ConnectionError: first\n",
		"tasks/3/stdout.txt": "loading again\n", "tasks/3/stderr.txt": "ValueError: second\n",
	} {
		if texts[name] != want {
			t.Errorf("%s is %q, want %q", name, texts[name], want)
		}
	}

	s := summarize(run)
	for _, f := range run.Failures {
		if f.Task != "3" {
			continue
		}
		got, other := strings.Join(s.printed(f).Lines, "\n"), map[int]string{1: "second", 2: "first"}[f.Attempt]
		if !strings.Contains(got, "Error") || strings.Contains(got, other) {
			t.Errorf("attempt %d has printed %q", f.Attempt, got)
		}
	}
}
