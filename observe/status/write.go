package status

import (
	"bufio"
	"encoding/json"

	"github.com/gputrain/gputrain/observe"
)

// A section is the name of a list of a Run, in JSON.
type section string

const (
	pools     section = "pools"
	nodes     section = "nodes"
	tasks     section = "tasks"
	groups    section = "groups"
	phases    section = "phases"
	transfers section = "transfers"
	failures  section = "failures"
	offers    section = "offers"
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
	head := headOf(r)
	head.Gone = p.gone
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	w.Write(text[:len(text)-1]) // a writer keeps its error until it is flushed
	now := r.At
	err = firstOf(
		writeList(w, p, pools, r.Pools, poolOf),
		writeList(w, p, nodes, r.Nodes, func(n observe.Node) nodeForm { return nodeOf(n, p.summary) }),
		writeList(w, p, tasks, r.Tasks, func(t observe.Task) taskForm { return taskOf(t, now, p.summary) }),
		writeList(w, p, groups, r.Groups, groupOf),
		writeList(w, p, phases, r.Phases, func(f observe.Phase) phaseForm { return phaseOf(f, p.summary) }),
		writeList(w, p, transfers, r.Transfers, transferOf),
		writeList(w, p, failures, r.Failures, func(f observe.Failure) failureForm { return failureOf(f, p.summary) }),
		writeList(w, p, offers, r.Offers, offerOf),
	)
	if err != nil {
		return err
	}
	return w.WriteByte('}')
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
