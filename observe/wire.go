package observe

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/camel"
	"github.com/gputrain/gputrain/internal/printable"
)

// An Entry as JSON: one line of a file. Numbers without a value are null, and steps' values that are not finite are texts.
type entryForm struct {
	Seq   int64      `json:"seq"`
	Event *eventForm `json:"event,omitzero"`
	Line  *lineForm  `json:"line,omitzero"`
}

type eventForm struct {
	Seq           int64                      `json:"seq,omitzero"`
	Time          time.Time                  `json:"time"`
	Pool          string                     `json:"pool,omitzero"`
	Kind          string                     `json:"kind"`
	State         string                     `json:"state,omitzero"`
	Node          int                        `json:"node"`
	At            named[gputrain.Node]       `json:"at,omitzero"`      // only of EventNode
	Machine       string                     `json:"machine,omitzero"` // At.ID of failures: the rank may be another machine's by now
	Err           *errorForm                 `json:"error,omitzero"`
	Elapsed       float64                    `json:"elapsed,omitzero"` // seconds
	Until         time.Time                  `json:"until,omitzero"`
	Task          string                     `json:"task,omitzero"`
	Name          string                     `json:"name,omitzero"`
	Attempt       int                        `json:"attempt,omitzero"`
	Ended         named[gputrain.AttemptEnd] `json:"ended,omitzero"`
	Nodes         []int                      `json:"nodes,omitzero"`
	Phase         string                     `json:"phase,omitzero"`
	Usual         float64                    `json:"usual,omitzero"` // in seconds
	Progress      named[gputrain.Progress]   `json:"progress,omitzero"`
	HostKey       string                     `json:"hostKey,omitzero"`
	HostKeySource gputrain.HostKeySource     `json:"hostKeySource,omitzero"`
	Path          string                     `json:"path,omitzero"`
	Bytes         int64                      `json:"bytes,omitzero"`
	TotalBytes    int64                      `json:"totalBytes,omitzero"`
	Rate          float64                    `json:"bytesPerSecond,omitzero"`
	Offer         named[gputrain.Offer]      `json:"offer,omitzero"`
	Cost          named[gputrain.Cost]       `json:"cost,omitzero"`
	Spec          json.RawMessage            `json:"spec,omitzero"`
	Epoch         int                        `json:"epoch,omitzero"` // a training's attempt, in older files
	Step          *stepForm                  `json:"step,omitzero"`
	Usage         named[gputrain.Usage]      `json:"usage,omitzero"`
	Omitted       int                        `json:"omitted,omitzero"`
	Tally         named[gputrain.Tally]      `json:"tally,omitzero"`
}

// A named value is written by the names of its fields in camel case. Files of before have the fields' own, which are read too.
type named[T any] struct{ Of *T }

func (n named[T]) MarshalJSON() ([]byte, error) { return camel.Marshal(n.Of) }

func (n *named[T]) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, &n.Of) }

type stepForm struct {
	N      int64          `json:"n"`
	Of     int64          `json:"of,omitzero"`
	Values map[string]any `json:"values,omitzero"`
}

type errorForm struct {
	Text  string `json:"text"`
	Tail  string `json:"tail,omitzero"`
	Stack string `json:"stack,omitzero"`
}

type lineForm struct {
	Time    time.Time `json:"time"`
	Pool    string    `json:"pool,omitzero"`
	Node    int       `json:"node"`
	Task    string    `json:"task,omitzero"`
	Name    string    `json:"name,omitzero"`
	Attempt int       `json:"attempt,omitzero"`
	Phase   string    `json:"phase,omitzero"`
	Stderr  bool      `json:"stderr,omitzero"`
	Text    string    `json:"text"`
	Omitted int       `json:"omitted,omitzero"`
}

// A pastError is the error of an event that was read from a file.
type pastError struct{ errorForm }

func (e *pastError) Error() string { return e.Text }

// detailsOf returns what an error of a task says beside its text.
func detailsOf(err error) (tail, stack string) {
	if e, ok := errors.AsType[*gputrain.TaskError](err); ok {
		tail, stack = e.Tail, e.Stack
	} else if e, ok := errors.AsType[*pastError](err); ok {
		tail, stack = e.Tail, e.Stack
	}
	return printable.Message(tail), printable.Message(stack)
}

// MarshalJSON returns the entry as a line of Config.File has it.
func (e Entry) MarshalJSON() ([]byte, error) { return json.Marshal(e.form()) }

func (e Entry) form() entryForm {
	f := entryForm{Seq: e.Seq}
	if l := e.Line; l != nil {
		f.Line = &lineForm{l.Time, l.Pool, l.Node, l.Task, l.Name, l.Attempt, l.Phase, l.Stderr, l.Text, l.Omitted}
	}
	if e.Event != nil {
		f.Event = formOf(e.Event)
	}
	return f
}

func formOf(ev *gputrain.Event) *eventForm {
	f := &eventForm{
		Seq: ev.Seq, Time: ev.Time, Pool: ev.Pool, Kind: ev.Kind.String(), State: ev.State, Node: ev.Node, Elapsed: ev.Elapsed.Seconds(), Until: ev.Until,
		Task: ev.Task, Name: ev.Name, Attempt: ev.Attempt, Ended: named[gputrain.AttemptEnd]{ev.Ended}, Nodes: ev.Nodes, Phase: ev.Phase, Usual: ev.Usual.Seconds(), HostKey: ev.HostKey,
		HostKeySource: ev.HostKeySource, Path: ev.Path, Bytes: ev.Bytes, TotalBytes: ev.TotalBytes, Rate: finite(ev.BytesPerSecond), Offer: named[gputrain.Offer]{ev.Offer},
		Cost: named[gputrain.Cost]{ev.Cost}, Omitted: ev.Omitted, Tally: named[gputrain.Tally]{ev.Tally},
	}
	if ev.Kind == gputrain.EventNode {
		f.At.Of = &ev.At
	} else if ev.Err != nil {
		f.Machine = ev.At.ID
	}
	if ev.Progress != (gputrain.Progress{}) {
		f.Progress.Of = &ev.Progress
	}
	if ev.Err != nil {
		tail, stack := detailsOf(ev.Err)
		f.Err = &errorForm{ev.Err.Error(), tail, stack}
	}
	if ev.Kind == gputrain.EventStep {
		f.Step = &stepForm{N: ev.Step.N, Of: ev.Step.Of}
		if len(ev.Step.Values) > 0 {
			f.Step.Values = map[string]any{}
		}
		for name, v := range ev.Step.Values {
			f.Step.Values[name] = v
			if finite(v) != v {
				f.Step.Values[name] = strconv.FormatFloat(v, 'g', -1, 64)
			}
		}
	}
	if len(ev.Usage.Accelerators) > 0 || ev.Usage.Host != nil {
		f.Usage.Of = &ev.Usage
	}
	if ev.Spec != nil {
		f.Spec, _ = camel.Marshal(ev.Spec) // without it the rest is still worth having
	}
	return f
}

// finite returns a number, or 0 for what JSON does not have.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// kinds are the kinds of events by their names.
var kinds = func() map[string]gputrain.EventKind {
	all := map[string]gputrain.EventKind{}
	for k := gputrain.EventPool; k <= gputrain.EventTrouble; k++ {
		all[k.String()] = k
	}
	return all
}()

// UnmarshalJSON reads what MarshalJSON has written. The errors of events have the same texts, and wrap nothing. Events other than
// EventNode have no At, but that of a failure its rank and ID. Whoever has written the file: texts have no control characters and are not endless, as those of a pool.
func (e *Entry) UnmarshalJSON(text []byte) error {
	var f entryForm
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	*e = Entry{Seq: f.Seq}
	if l := f.Line; l != nil {
		text := printable.Message(printable.Line(l.Text))
		*l = printable.Each(*l, printable.Name)
		l.Text = text
		e.Line = &gputrain.Line{
			Time: l.Time, Pool: l.Pool, Node: l.Node, Task: l.Task, Name: l.Name, Attempt: l.Attempt, Phase: l.Phase, Stderr: l.Stderr, Text: l.Text,
			Omitted: l.Omitted,
		}
	}
	if f.Event == nil {
		return nil
	}
	ev, err := f.Event.event()
	e.Event = ev
	return err
}

func (f *eventForm) event() (*gputrain.Event, error) {
	kind, known := kinds[f.Kind]
	if !known {
		return nil, errors.New("the kind of event " + strconv.Quote(printable.Name(f.Kind)) + " is not known")
	}
	err, spec := f.Err, f.Spec
	f.Err, f.Spec = nil, nil
	*f = printable.Each(*f, printable.Name)
	ev := &gputrain.Event{
		Seq: f.Seq, Time: f.Time, Pool: f.Pool, Kind: kind, State: f.State, Node: f.Node, Elapsed: durationOf(f.Elapsed), Until: f.Until,
		Task: f.Task, Name: f.Name, Attempt: cmp.Or(f.Attempt, f.Epoch), Ended: f.Ended.Of, Nodes: f.Nodes, Phase: f.Phase, Usual: durationOf(f.Usual), HostKey: f.HostKey,
		HostKeySource: f.HostKeySource, Path: f.Path, Bytes: f.Bytes, TotalBytes: f.TotalBytes, BytesPerSecond: f.Rate, Offer: f.Offer.Of, Cost: f.Cost.Of,
		Omitted: f.Omitted, Tally: f.Tally.Of,
	}
	if f.Progress.Of != nil {
		ev.Progress = *f.Progress.Of
	}
	if f.At.Of != nil {
		ev.At = *f.At.Of
	} else if f.Machine != "" {
		ev.At = gputrain.Node{Rank: f.Node, ID: f.Machine}
	}
	if err != nil {
		ev.Err = &pastError{printable.Each(*err, printable.Message)}
	}
	if s := f.Step; s != nil {
		ev.Step = gputrain.Step{N: s.N, Of: s.Of}
		for name, v := range s.Values {
			if ev.Step.Values == nil {
				ev.Step.Values = map[string]float64{}
			}
			switch v := v.(type) {
			case float64:
				ev.Step.Values[name] = v
			case string:
				ev.Step.Values[name], _ = strconv.ParseFloat(v, 64) // NaN, +Inf or -Inf
			}
		}
	}
	if f.Usage.Of != nil {
		ev.Usage = *f.Usage.Of
	}
	if len(spec) > 0 {
		ev.Spec = &gputrain.Spec{}
		if json.Unmarshal(spec, ev.Spec) != nil {
			ev.Spec = nil // of another version
		}
		ev.Spec = printable.Each(ev.Spec, printable.Message)
	}
	return ev, nil
}

// durationOf returns the duration of a number of seconds that Seconds has returned.
func durationOf(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}
