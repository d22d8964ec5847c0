package report

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/credential"
	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/internal/runjson"
)

// mostTasks bounds the failed tasks that have a folder.
const mostTasks = 200

// fileName returns a name for a file that is made from a text: the same for the same text, and others for others.
func fileName(text string) string {
	if credential.IsIn(text) {
		text = fmt.Sprintf("redacted-%x", sha256.Sum256([]byte(text)))[:20]
	}
	safe := strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, text)
	if safe == text && len(safe) <= 60 && strings.Trim(safe, ".") != "" {
		return safe
	}
	return strings.TrimLeft(safe[:min(len(safe), 40)], ".-") + fmt.Sprintf("-%x", sha256.Sum256([]byte(text)))[:9]
}

// taskFolder returns the folder of a failed task. Without the pool a name would be ambiguous if there are many.
func taskFolder(pool, id string, many bool) string {
	if many {
		return "tasks/" + fileName(pool) + "/" + fileName(id)
	}
	return "tasks/" + fileName(id)
}

// addTasks adds the failed tasks, the one of the cause first.
func (b *bundle) addTasks(a *archive) error {
	var failed []observe.Task
	for _, t := range b.run.Tasks {
		if t.State == "failed" {
			failed = append(failed, t)
		}
	}
	if c, ok := findCause(b.run); ok {
		slices.SortStableFunc(failed, func(x, y observe.Task) int { return isOf(y, c.First) - isOf(x, c.First) })
	}
	for i, t := range failed {
		if i == mostTasks {
			a.miss("tasks/", fmt.Sprintf("%d more failed tasks have no folder; run.json has them", len(failed)-i))
			break
		}
		if err := b.addTask(a, t); err != nil {
			return err
		}
	}
	return nil
}

func isOf(t observe.Task, f observe.Failure) int {
	if t.Pool == f.Pool && t.ID == f.Task {
		return 1
	}
	return 0
}

func (b *bundle) addTask(a *archive, t observe.Task) error {
	folder := taskFolder(t.Pool, t.ID, len(b.run.Pools) > 1)
	quota := a.limits.bytes / 16
	var last observe.Failure // of it
	for _, f := range b.run.Failures {
		if isOf(t, f) == 1 && f.Kind == "task" {
			last = f
		}
	}
	if err := a.file(folder+"/task.json", quota, func(w io.Writer) error { return indent(w, runjson.TaskOf(t, b.run.At)) }); err != nil {
		return err
	}
	printed := map[int]bool{} // attempts that have printed
	final := 0
	for _, l := range t.Lines {
		printed[l.Attempt] = true
		final = max(final, l.Attempt)
	}
	delete(printed, 0) // of which it is not known: they are with the last
	delete(printed, final)
	for _, attempt := range slices.Sorted(maps.Keys(printed)) {
		stdout, stderr := streams(slices.DeleteFunc(slices.Clone(t.Lines), func(l gputrain.Line) bool { return l.Attempt != attempt }))
		for _, part := range []collected{{"stdout.txt", stdout}, {"stderr.txt", stderr}} {
			if err := a.printed(fmt.Sprintf("%s/attempt-%d/%s", folder, attempt, part.name), part.text, quota); err != nil {
				return err
			}
		}
	}
	stdout, stderr := streams(linesOfAttempt(t.Lines, final))
	if stderr == "" {
		stderr = last.Tail
	}
	for _, part := range []collected{{"stdout.txt", stdout}, {"stderr.txt", stderr}, {"stack.txt", last.Stack}} {
		if strings.TrimSpace(printable.Text(part.text)) == "" && part.name != "stack.txt" {
			a.miss(folder+"/"+part.name, "no line is recorded")
		}
		if err := a.printed(folder+"/"+part.name, part.text, quota); err != nil {
			return err
		}
	}
	return nil
}

// printed adds a file with what a task has printed, if that is anything.
func (a *archive) printed(name, text string, quota int64) error {
	text = printable.Text(text)
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return a.file(name, quota, func(w io.Writer) error {
		_, err := io.WriteString(w, strings.TrimRight(text, "\n")+"\n")
		return err
	})
}

// streams divides lines by their streams.
func streams(lines []gputrain.Line) (stdout, stderr string) {
	var texts [2]strings.Builder
	for _, l := range lines {
		text, to := l.Text, &texts[0]
		if l.Omitted > 0 {
			text = fmt.Sprintf("[%s left out]", count(l.Omitted, "line"))
		}
		if l.Stderr {
			to = &texts[1]
		}
		to.WriteString(printable.Line(text) + "\n")
	}
	return texts[0].String(), texts[1].String()
}

// indent writes a value as JSON for reading.
func indent(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
