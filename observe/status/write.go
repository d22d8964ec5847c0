package status

import (
	"bufio"
	"encoding/json"

	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/internal/runjson"
)

// A section is the name of a list of a Run, in JSON.
type section = runjson.List

const (
	pools     = runjson.Pools
	nodes     = runjson.Nodes
	tasks     = runjson.Tasks
	groups    = runjson.Groups
	phases    = runjson.Phases
	transfers = runjson.Transfers
	failures  = runjson.Failures
	offers    = runjson.Offers
)

// A part says which parts of a Run are written.
type part struct {
	summary bool
	// gone are the keys of what is not in the Run any more.
	gone map[section][]string
	// has reports whether a part is written, by its index in its list. Nil means all of them.
	has func(s section, i int) bool
}

// writeRun writes a Run as one JSON object without a line break, piece by piece: a Run can be large.
func writeRun(w *bufio.Writer, r observe.Run, p part) error {
	text, err := json.Marshal(struct {
		runjson.Head
		Gone map[section][]string `json:"gone,omitempty"` // in updates
	}{runjson.HeadOf(r), p.gone})
	if err != nil {
		return err
	}
	w.Write(text[:len(text)-1]) // a writer keeps its error until it is flushed
	err = firstOf(
		writeList(w, p, pools, r.Pools, either(p.summary, compactPool, runjson.PoolOf)),
		writeList(w, p, nodes, r.Nodes, either(p.summary, compactNode, runjson.NodeOf)),
		writeList(w, p, tasks, r.Tasks, func(t observe.Task) runjson.Task { return either(p.summary, compactTask, runjson.TaskOf)(t, r.At) }),
		writeList(w, p, groups, r.Groups, runjson.GroupOf),
		writeList(w, p, phases, r.Phases, either(p.summary, compactPhase, runjson.PhaseOf)),
		writeList(w, p, transfers, r.Transfers, runjson.TransferOf),
		writeList(w, p, failures, r.Failures, either(p.summary, compactFailure, runjson.FailureOf)),
		writeList(w, p, offers, r.Offers, runjson.OfferOf),
	)
	if err != nil {
		return err
	}
	return w.WriteByte('}')
}

func either[F any](first bool, a, b F) F {
	if first {
		return a
	}
	return b
}

// writeList writes a list as a member of an object that has members before. In an update, which has no part of most lists, a list
// without parts is left out.
func writeList[T, U any](w *bufio.Writer, p part, s section, all []T, form func(T) U) error {
	begun := false
	begin := func() {
		w.WriteString(`,"` + string(s) + `":[`)
		begun = true
	}
	if p.has == nil {
		begin()
	}
	written := 0
	for i, v := range all {
		if p.has != nil && !p.has(s, i) {
			continue
		}
		if !begun {
			begin()
		}
		text, err := json.Marshal(form(v))
		if err != nil {
			return err
		}
		if written > 0 {
			w.WriteByte(',')
		}
		written++
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	if !begun {
		return nil
	}
	return w.WriteByte(']')
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
