package report

import (
	"encoding/json"
	"io"
	"math"
	"slices"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/internal/runjson"
)

// allLines has writeRun write all lines that a Run has.
const allLines = math.MaxInt

// writeRun writes a Run as JSON, with the last so many lines of each phase and each task that has not failed.
func writeRun(w io.Writer, run observe.Run, lines int) error {
	run.Tasks, run.Phases = slices.Clone(run.Tasks), slices.Clone(run.Phases)
	for i := range run.Tasks {
		if t := &run.Tasks[i]; t.State != "failed" {
			t.Lines = lastLines(t.Lines, lines)
		}
	}
	for i := range run.Phases {
		if p := &run.Phases[i]; p.State != "failed" {
			p.Lines = lastLines(p.Lines, lines)
		}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(runjson.Of(run))
}

func lastLines(all []gputrain.Line, most int) []gputrain.Line { return all[max(len(all)-most, 0):] }
