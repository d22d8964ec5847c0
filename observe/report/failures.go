package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

// failureSection has the failures, and the last lines of what failed. Refused offers have a table of their own.
func (s *summary) failureSection() section {
	sec := section{ID: "failures", Title: "Failures"}
	all := slices.DeleteFunc(slices.Clone(s.run.Failures), func(f observe.Failure) bool { return f.Kind == "offer" })
	if len(all) == 0 {
		sec.Text = "No failure is recorded."
		return sec
	}
	t := table{Caption: "Failures, in order", Columns: []column{text("Time"), text("What"), text("Node"), number("Attempt"), text("Cause"), text("Error")}}
	seen := map[string]bool{}
	for _, f := range all {
		if len(t.Rows) < mostFailures {
			attempt := ""
			if f.Attempt > 0 {
				attempt = fmt.Sprint(f.Attempt)
			}
			cause := cleanLine(f.Cause)
			if f.Retried {
				cause = strings.TrimPrefix(cause+", retried", ", ")
			}
			t.Rows = append(t.Rows, []string{clock(f.At), what(f), s.nodeName(f.Node, f.Rank), attempt, cause, firstLine(f.Err)})
		}
		if key := about(f); len(sec.Outputs) < mostOutputs && !f.Retried && key != "" && !seen[key] {
			if p := s.printed(f); p.Lines != nil || strings.Contains(p.Err, "\n") { // more than the table has
				seen[key] = true
				sec.Outputs = append(sec.Outputs, p)
			}
		}
	}
	t.andMore(len(all))
	sec.Tables = []table{t}
	return sec
}

// what names what a failure happened to.
func what(f observe.Failure) string {
	switch {
	case f.Kind == "phase" && f.Phase != "":
		return "phase " + cleanLine(f.Phase)
	case f.Task != "":
		return taskName(f.Task, f.Name)
	case f.Name != "":
		return cleanLine(f.Kind + " " + f.Name)
	}
	return cleanLine(f.Kind)
}

// taskName names a task by its ID and name.
func taskName(id, name string) string {
	if name == "" || name == id {
		return "task " + cleanLine(id)
	}
	return fmt.Sprintf("task %s (%s)", cleanLine(id), cleanLine(name))
}

// about identifies what a failure happened to, if that may have printed lines.
func about(f observe.Failure) string {
	switch {
	case f.Task != "":
		return "task\x00" + f.Pool + "\x00" + f.Task
	case f.Kind == "phase", f.Kind == "node":
		return "node\x00" + f.Node
	}
	return ""
}

// printed returns the error of a failure and the last lines of what failed.
func (s *summary) printed(f observe.Failure) printed {
	p := printed{Title: what(f) + strings.TrimSuffix(" on "+s.nodeName(f.Node, f.Rank), " on "), Err: clean(f.Err)}
	lines := linesOf(s.run, f)
	if more := len(lines) - shownLines; more > 0 {
		lines = lines[more:]
	}
	for _, l := range lines {
		p.Lines = append(p.Lines, lineText(l))
	}
	return p
}

// linesOf returns the last lines of the task or phase that failed.
func linesOf(run observe.Run, f observe.Failure) []gputrain.Line {
	if f.Task != "" {
		for i := range run.Tasks {
			if t := &run.Tasks[i]; t.ID == f.Task && t.Pool == f.Pool {
				return linesOfAttempt(t.Lines, f.Attempt)
			}
		}
		return nil
	}
	if p := failedPhase(run, f); p != nil {
		return p.Lines
	}
	return nil
}

// linesOfAttempt returns the lines that an attempt has printed, and those of which that is not known; of attempt 0 it returns all.
func linesOfAttempt(lines []gputrain.Line, attempt int) (of []gputrain.Line) {
	for _, l := range lines {
		if attempt == 0 || l.Attempt == 0 || l.Attempt == attempt {
			of = append(of, l)
		}
	}
	return of
}

// failedPhase returns the phase that failed, or because of which a node did, or nil.
func failedPhase(run observe.Run, f observe.Failure) *observe.Phase {
	if f.Kind != "phase" && f.Kind != "node" || f.Node == "" {
		return nil
	}
	for i := range run.Phases {
		if p := &run.Phases[i]; (f.Phase == "" || p.Name == f.Phase) && p.Node == f.Node && p.Pool == f.Pool && (p.State == "failed" || p.Err != "") {
			return p
		}
	}
	return nil
}

// lineText returns a line as it is shown.
func lineText(l gputrain.Line) string {
	if l.Omitted > 0 {
		return fmt.Sprintf("[%s left out]", count(l.Omitted, "line"))
	}
	return indented(l.Text)
}
