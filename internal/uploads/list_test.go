package uploads

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"testing"

	"github.com/gputrain/gputrain/internal/transfer"
)

// A treeOf has, for each file of a node, the local path of its last upload.
type treeOf map[string]string

// send changes the files as an upload does. A folder has one file for each letter of its name.
func (t treeOf) send(up Upload) {
	at := path.Clean(up.Remote)
	if up.File {
		t[at] = up.Local
		return
	}
	for i, c := range up.Local {
		if c != '/' && (up.Links != transfer.SkipOutside || i > 0) {
			t[path.Join(at, string(c))] = up.Local
		}
	}
}

// At any point, replaying the uploads that a List keeps gives the same files as all uploads.
func TestUploadsComeToTheSame(t *testing.T) {
	files := []string{"x", "y", "z"}
	folders := []string{"ab", "bc", "abx", "x"}
	places := []string{"d", "./d", "d/a", "d/b", "d/", "e", "d/c/f"}
	for round := range 2000 {
		rng := rand.New(rand.NewPCG(1, uint64(round)))
		pick := func(of []string) string { return of[rng.IntN(len(of))] }
		var s List
		all, have := treeOf{}, treeOf{}
		different := map[string]bool{}
		done := 0
		for range 1 + rng.IntN(40) {
			up := Upload{Remote: pick(places), File: rng.IntN(2) == 0, Links: []transfer.Links{transfer.RefuseOutside, transfer.SkipOutside}[rng.IntN(2)]}
			if up.Local = pick(folders); up.File {
				up.Local = pick(files)
			}
			all.send(up)
			s.Add(up)
			different[fmt.Sprint(path.Clean(up.Remote), up)] = true
			if rng.IntN(5) == 0 { // a node that joins meanwhile
				for _, later := range s.After(done) {
					have.send(later.Upload)
					done = later.Number
				}
				if !maps.Equal(have, all) {
					t.Fatalf("round %d: a node that joins has %v; the others have %v", round, have, all)
				}
			}
		}
		fresh := treeOf{}
		for _, up := range s.After(0) {
			fresh.send(up.Upload)
		}
		if !maps.Equal(fresh, all) {
			t.Fatalf("round %d: a new node has %v; the others have %v", round, fresh, all)
		}
		if n := len(s.After(0)); n > len(different) {
			t.Fatalf("round %d: %d uploads are left of %d different ones", round, n, len(different))
		}
	}
}

// If a path is uploaded many times, only the last upload is kept and replayed.
func TestRepeatedUploadsAreReplayedOnce(t *testing.T) {
	folder := Upload{Local: "/src", Remote: "src"}
	model := func(i int) Upload { return Upload{Local: fmt.Sprint("/model-", i), Remote: "model", File: true} }
	var s List
	changes := 0
	for i := range 1000 {
		for _, up := range []Upload{folder, folder, model(i)} {
			if s.Add(up) {
				changes++
			}
		}
	}
	left := s.After(0)
	if len(left) != 2 || left[0].Upload != folder || left[1].Upload != model(999) {
		t.Errorf("%d are left: %+v", len(left), left)
	}
	if changes != 2000 {
		t.Errorf("%d changes are told, of 2000", changes)
	}
	if len(s.paths) != 2 || len(s.paths["src"]) != 1 || len(s.paths["model"]) != 1 {
		t.Errorf("what was superseded is kept: %v", s.paths)
	}
}
