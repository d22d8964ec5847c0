package gputrain

import (
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/gputrain/gputrain/internal/record"
)

// Whatever a line of a journal holds, reading it does not panic, and neither does
// what is made of it.
func FuzzJournal(f *testing.F) {
	add := func(is string, v any) {
		b, err := cbor.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(is, b)
	}
	add(keptTasks, keptBatch{Units: []keptUnit{{ID: "t1"}}, Task: keep(Cmd("true"))})
	add(keptResult, outcomeOf("t0", Result{Stdout: []byte("out"), Err: &TaskError{Cause: CauseTimeout, Err: ErrTimeout}}))
	add(keptRetry, keptTries{ID: "t0", Attempts: 1})
	add(keptWhere, keptPlaceOf(1, Node{Name: "n"}))
	add(keptHanded, []string{"t0"})
	add(keptPool, keptSpec{Spec: Spec{Nodes: 1}})
	add(keptNode, keptBase{Node: "n", Env: map[string]string{"A": "B"}})
	f.Fuzz(func(t *testing.T, is string, body []byte) {
		known := &keptOpen{unit: keptUnit{ID: "t0"}}
		s := &keptPoolState{bases: map[string]keptBase{}, workers: map[string]keptBase{}, places: map[int]keptPlace{}, tasks: []*keptOpen{known}}
		open, sizes, begun := map[string]*keptOpen{"t0": known}, map[string]int64{}, false
		if err := s.line(record.Record{Head: lineHeads[is], Body: body}, open, sizes, &begun); err != nil {
			return
		}
		for _, k := range s.tasks {
			task, _ := k.task.restored(nil)
			_ = task.Validate()
			if k.outcome != nil {
				r := k.outcome.result(0, s.places[k.outcome.Where].node(), "")
				if r.Err != nil && r.Err.Error() == "" {
					t.Error("an error without a word")
				}
			}
		}
	})
}
