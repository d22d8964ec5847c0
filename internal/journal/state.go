package journal

import (
	"errors"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/gputrain/gputrain/internal/record"
)

// A State is the content of a journal.
type State struct {
	ResultsDir   string                 // the folder of the pool's results
	Environments map[string]Environment // of the nodes that were bootstrapped, by the machine's name
	Workers      map[string]Worker      // the last of each node, by the machine's name
	Uploads      []Upload               // in order
	Tasks        []*Pending             // that were not delivered, in order
	LastTask     int64                  // the highest number in the ID of a task
	Trainings    []Training             // in order, also those that are over

	spec      cbor.RawMessage // nil until the header was read
	locations map[int]Location
	base      []record.Record // the lines that every rewrite keeps
	open      map[string]*Pending
}

// A Pending is a task that was not delivered.
type Pending struct {
	Unit      Unit
	Task      Task // with its argument
	Tries     Tries
	Broadcast *Broadcast // that all of its tasks share; nil if the task is of none
	Call      string     // as in Batch
	Outcome   *Outcome   // nil if it is not known that it ended

	askedAt int64 // when it was asked for, in Unix nanoseconds
	size    int64 // of its lines
}

// A Broadcast is a task that each of several nodes runs.
type Broadcast struct {
	Members []string // the names of the machines, in order
}

// Since is a time before which the task's last attempt cannot have begun.
func (p *Pending) Since() time.Time { return time.Unix(0, max(p.askedAt, p.Tries.At)) }

// Location returns where a task ended. The zero Location means on no node.
func (s *State) Location(o *Outcome) Location { return s.locations[o.Location] }

// Open reads the journal of another program, and continues a copy, so that the other program, if it lives, writes into
// a file that no program reads. It decodes the pool's spec into spec, a pointer; failed is as for [Create].
func Open(path string, spec any, failed func(error)) (*Journal, *State, error) {
	s, err := read(record.Read(path))
	if err != nil {
		return nil, nil, err
	}
	if err := unmarshal(s.spec, spec); err != nil {
		return nil, nil, err
	}
	j := newJournal(path, failed)
	j.base, j.lastLocation, j.lastTask = s.base, len(s.locations), s.LastTask
	for id, t := range s.open {
		j.open[id] = t.size
		j.live += t.size
	}
	if j.file, err = rewrite(path, j.base, j.open, j.lastTask); err != nil {
		return nil, nil, err
	}
	return j, s, nil
}

// HoldsLease reports whether, by the journal of a dead program, a task may run that holds its node's lease. For a journal
// that cannot be read it is false: Attach takes no such pool up.
func HoldsLease(path string) bool {
	s, err := read(record.Read(path))
	return err == nil && slices.ContainsFunc(s.Tasks, func(t *Pending) bool { return t.Task.HoldsLease && t.Outcome == nil })
}

func newState() *State {
	return &State{Environments: map[string]Environment{}, Workers: map[string]Worker{}, locations: map[int]Location{}, open: map[string]*Pending{}}
}

// read returns the content of a journal. It ignores an incomplete last line.
func read(lines iter.Seq2[record.Record, error]) (*State, error) {
	s := newState()
	for r, err := range lines {
		var torn *record.TornError
		switch {
		case errors.As(err, &torn):
			continue
		case errors.Is(err, os.ErrNotExist):
			return nil, errors.New("it is missing: its program died before it had made anything, or could not keep it")
		case err != nil:
			return nil, err
		}
		if err := s.add(r); err != nil {
			return nil, err
		}
	}
	if s.spec == nil {
		return nil, errors.New("it does not describe the pool")
	}
	s.Tasks = slices.DeleteFunc(s.Tasks, func(t *Pending) bool { return s.open[t.Unit.ID] == nil })
	return s, nil
}

// add takes one line of a journal. It ignores lines of a kind that it does not know.
func (s *State) add(r record.Record) error {
	switch k := kindOf(r); k {
	case poolLine, nodeLine, uploadLine, locationLine:
		if err := s.addBase(k, r.Body); err != nil {
			return err
		}
		s.base = append(s.base, r)
		return nil
	case trainingLine:
		return s.addTraining(r)
	case tasksLine:
		return decode(r, s.begin)
	case retryLine:
		return decode(r, func(t Tries, _ int64) {
			if p := s.open[t.ID]; p != nil {
				p.Tries = t
			}
		})
	case resultLine:
		return decode(r, func(o Outcome, size int64) {
			if p := s.open[o.ID]; p != nil {
				p.Outcome = &o
				p.size += size
			}
		})
	case deliveredLine:
		return decode(r, func(ids []string, _ int64) {
			for _, id := range ids {
				delete(s.open, id)
				s.LastTask = max(s.LastTask, taskNumber(id))
			}
		})
	}
	return nil
}

// decode calls f with the content of a line's body, and its size.
func decode[T any](r record.Record, f func(v T, size int64)) error {
	var v T
	if err := unmarshal(r.Body, &v); err != nil {
		return err
	}
	f(v, int64(len(r.Body)))
	return nil
}

// begin takes tasks.
func (s *State) begin(b Batch, size int64) {
	var broadcast *Broadcast
	if b.Members != nil {
		broadcast = &Broadcast{b.Members}
	}
	for _, u := range b.Units {
		p := &Pending{Unit: u, Task: b.Task, Broadcast: broadcast, Call: b.Call, askedAt: b.At, size: size / int64(len(b.Units))}
		if u.Arg != nil {
			p.Task.Arg = u.Arg
		}
		s.open[u.ID] = p
		s.Tasks = append(s.Tasks, p)
		s.LastTask = max(s.LastTask, taskNumber(u.ID))
	}
}

// addBase takes a line that every rewrite keeps.
func (s *State) addBase(k kind, body []byte) error {
	switch k {
	case poolLine:
		var h struct {
			Spec       cbor.RawMessage
			ResultsDir string
		}
		if err := unmarshal(body, &h); err != nil {
			return err
		}
		s.spec, s.ResultsDir = append(cbor.RawMessage{}, h.Spec...), h.ResultsDir
	case nodeLine:
		var n nodeForm
		if err := unmarshal(body, &n); err != nil {
			return err
		}
		if n.Worker != "" {
			s.Workers[n.Node] = Worker{Node: n.Node, Name: n.Worker, Binary: n.Binary, Starts: n.Ships}
		} else {
			s.Environments[n.Node] = Environment{Node: n.Node, Env: n.Env, Path: n.Path, Image: n.Image}
		}
	case uploadLine:
		var u Upload
		if err := unmarshal(body, &u); err != nil {
			return err
		}
		s.Uploads = append(s.Uploads, u)
	case locationLine:
		var l Location
		if err := unmarshal(body, &l); err != nil {
			return err
		}
		s.locations[l.Number] = l
	}
	return nil
}
