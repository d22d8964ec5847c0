package journal

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/record"
)

// A Training is the state of a training. Each line of one replaces those before it.
type Training struct {
	// ID is unique in the pool: "g1". Name is the user's.
	ID, Name string
	// Over means that its caller has its result.
	Over bool `cbor:",omitzero"`
	// Began is when it began, in Unix nanoseconds.
	Began int64 `cbor:",omitzero"`
	// Attempt is the number of the last one. Nodes are the names of its machines, empty for one that was given back. Shares is the
	// number of processes that were started.
	Attempt int      `cbor:"Epoch,omitzero"` // its name in files that older versions have written
	Nodes   []string `cbor:",omitzero"`
	Shares  int      `cbor:",omitzero"`
	// Processes is how many run on each node.
	Processes int `cbor:",omitzero"`
	Port      int `cbor:",omitzero"`
	// Launcher is how they were started. Function reports that they are calls.
	Launcher int  `cbor:",omitzero"`
	Function bool `cbor:",omitzero"`
	// Prepared is when the attempt's processes were started, and Released when they were released, in Unix nanoseconds. Zero
	// means that they were not.
	Prepared, Released int64  `cbor:",omitzero"`
	Resumed            string `cbor:",omitzero"`
	// Checks is how often its check was run.
	Checks int `cbor:",omitzero"`
	// Restarts are the failures of the program that came before, and Fruitless the attempts in a row that got no further.
	Restarts, Fruitless int `cbor:",omitzero"`
	// Step is the greatest that was reported.
	Step int64 `cbor:",omitzero"`
	// Past are the attempts before.
	Past []PastAttempt `cbor:",omitzero"`
}

// Differs returns how a training differs from another one that is to go on with it, or nil. Before its first attempt nothing
// does.
func (t *Training) Differs(nodes, launcher int, function bool) error {
	switch {
	case t.Attempt == 0:
		return nil
	case nodes != len(t.Nodes):
		return fmt.Errorf("it has %d nodes, and not %d", len(t.Nodes), nodes)
	case launcher != t.Launcher, function != t.Function:
		return errors.New("its processes are started in another way")
	}
	return nil
}

// A PastAttempt is an attempt that is over.
type PastAttempt struct {
	Number      int
	Nodes       []Location
	From, To    int64
	Resumed     string `cbor:",omitzero"`
	First, Last int64  `cbor:",omitzero"`
	Failure     string `cbor:",omitzero"`
}

// AddTraining records where a training is.
func (j *Journal) AddTraining(t Training) {
	j.changeBase(trainingLine, t, func(base []record.Record, line record.Record) []record.Record { return appendTraining(base, line, t) })
}

// appendTraining appends the line of a training to the lines that every rewrite keeps, in place of an older one. A training
// that is over needs none, unless its number is the highest: no other one may get its ID.
func appendTraining(base []record.Record, line record.Record, t Training) []record.Record {
	kept := base[:0:0]
	for _, r := range base {
		var other Training
		if kindOf(r) != trainingLine || unmarshal(r.Body, &other) == nil && other.ID != t.ID && (!other.Over || other.Number() > t.Number()) {
			kept = append(kept, r)
		}
	}
	return append(kept, line)
}

// Number returns that in the ID of a training, or 0 if it has none.
func (t *Training) Number() int {
	n, err := strconv.Atoi(strings.TrimPrefix(t.ID, TrainingPrefix))
	if err != nil {
		return 0
	}
	return n
}

// TrainingPrefix begins the IDs of trainings. A number follows.
const TrainingPrefix = "g"

// addTraining takes the line of a training.
func (s *State) addTraining(r record.Record) error {
	var t Training
	if err := unmarshal(r.Body, &t); err != nil {
		return err
	}
	s.base = appendTraining(s.base, r, t)
	for i := range s.Trainings {
		if s.Trainings[i].ID == t.ID {
			s.Trainings[i] = t
			return nil
		}
	}
	s.Trainings = append(s.Trainings, t)
	return nil
}
