package gputrain

import (
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/gputrain/gputrain/internal/journal"
)

// Decoding any task, result or node that a journal may hold does not panic, and an error has a
// text.
func FuzzResumedTask(f *testing.F) {
	encode := func(v any) []byte {
		b, err := cbor.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	task := taskForm(Task{Args: []string{"true"}, Secrets: map[string]Secret{"KEY": "sesame"}, Target: OnLabels(map[string]string{"a": "b"})})
	call := journal.Task{Function: "f", Arg: &journal.Arg{Head: []byte("head")}}
	outcome := outcomeOf("t0", Result{Stdout: []byte("out"), Outputs: []OutputFile{{Name: "a"}}, Err: &TaskError{Cause: CauseTimeout, Err: ErrTimeout}})
	f.Add(encode(task), encode(outcome), encode(locationOf(Node{Name: "n"})))
	f.Add(encode(call), encode(outcomeOf("t0", Result{function: "f"})), encode(journal.Location{}))
	f.Fuzz(func(t *testing.T, taskBytes, outcomeBytes, locationBytes []byte) {
		var form journal.Task
		if cbor.Unmarshal(taskBytes, &form) == nil {
			task, _ := taskOf(form, nil)
			_ = task.Validate()
			if task.call != nil {
				_, _ = task.call.encode()
			}
		}
		var outcome journal.Outcome
		var location journal.Location
		if cbor.Unmarshal(outcomeBytes, &outcome) == nil && cbor.Unmarshal(locationBytes, &location) == nil {
			r := resultOf(&outcome, 0, nodeAt(location), form.Function)
			if r.Err != nil && r.Err.Error() == "" {
				t.Error("an error has no text")
			}
		}
	})
}
