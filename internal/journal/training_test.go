package journal

import (
	"path/filepath"
	"testing"
)

// Another program knows the highest number that a training had, however many are over and whatever was recorded since: an
// ID is never used twice on a node.
func TestTrainingIDsStayKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.tasks")
	j := Create(path, testSpec{}, "/r", func(err error) { t.Error(err) })
	for _, tr := range []Training{
		{ID: "g9", Attempt: 1}, {ID: "g10", Attempt: 1}, {ID: "g11", Attempt: 1},
		{ID: "g10", Over: true}, {ID: "g11", Over: true}, {ID: "g9", Attempt: 2},
	} {
		j.AddTraining(tr)
	}
	j.Close()
	for range 2 { // the second reads what the first has rewritten
		var spec testSpec
		j, s, err := Open(path, &spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		j.Close()
		known := map[string]Training{}
		for _, tr := range s.Trainings {
			known[tr.ID] = tr
		}
		if known["g9"].Attempt != 2 || !known["g11"].Over {
			t.Errorf("%+v", s.Trainings)
		}
	}
}
