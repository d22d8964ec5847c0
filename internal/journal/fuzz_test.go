package journal

import (
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/gputrain/gputrain/internal/record"
)

// Reading a line of a journal, and using its tasks, never panics.
func FuzzJournal(f *testing.F) {
	add := func(k kind, v any) {
		b, err := cbor.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(k), b)
	}
	add(tasksLine, Batch{Units: []Unit{{ID: "t1"}}, Task: Task{Args: []string{"true"}}, Members: []string{"p-0"}})
	add(tasksLine, Batch{Units: []Unit{{ID: "t1", Arg: &Arg{TooLarge: true}}}, Task: Task{Function: "f"}})
	add(resultLine, Outcome{ID: "t0", Location: 1, More: &OutcomeDetails{Stdout: []byte("out"), Failure: &Failure{Text: "no", Kinds: []string{"quota"}}}})
	add(retryLine, Tries{ID: "t0", Attempts: 1})
	add(locationLine, Location{Number: 1, Name: "n"})
	add(deliveredLine, []string{"t0"})
	add(poolLine, header{Spec: struct{ Nodes int }{1}})
	add(nodeLine, nodeForm{Node: "n", Env: map[string]string{"A": "B"}})
	f.Fuzz(func(t *testing.T, k string, body []byte) {
		known := &Pending{Unit: Unit{ID: "t0"}}
		s := newState()
		s.open["t0"], s.Tasks = known, []*Pending{known}
		line := record.Record{Head: heads[kind(k)], Body: body}
		if err := s.add(line); err != nil {
			return
		}
		isAbout(line, map[string]int64{"t0": 1})
		for _, p := range s.Tasks {
			_, _ = p.Task.Missing(), p.Task.Arg.Body()
			p.Since()
			if p.Outcome != nil {
				s.Location(p.Outcome)
				if m := p.Outcome.More; m != nil && m.Failure != nil {
					if err := m.Failure.Err(); err != nil && err.Error() == "" {
						t.Error("an error without a text")
					}
				}
			}
		}
	})
}
