package gputrain

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"testing"

	"github.com/gputrain/gputrain/internal/transfer"
)

// A treeOf is the files of a node: by path what was uploaded there.
type treeOf map[string]string

// send does to the files what an upload does. A folder brings the files of its name.
func (t treeOf) send(up upload) {
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

// What is left of a row of uploads comes to the same as all of them, at any point.
func TestUploadsComeToTheSame(t *testing.T) {
	files := []string{"x", "y", "z"}
	folders := []string{"ab", "bc", "abx", "x"}
	places := []string{"d", "./d", "d/a", "d/b", "d/", "e", "d/c/f"}
	for round := range 2000 {
		rng := rand.New(rand.NewPCG(1, uint64(round)))
		pick := func(of []string) string { return of[rng.IntN(len(of))] }
		var s uploads
		all, have := treeOf{}, treeOf{}
		different := map[string]bool{}
		done := 0
		for range 1 + rng.IntN(40) {
			up := upload{Remote: pick(places), File: rng.IntN(2) == 0, Links: []transfer.Links{transfer.RefuseOutside, transfer.SkipOutside}[rng.IntN(2)]}
			if up.Local = pick(folders); up.File {
				up.Local = pick(files)
			}
			all.send(up)
			s.add(up)
			different[fmt.Sprint(path.Clean(up.Remote), up)] = true
			if rng.IntN(5) == 0 { // a node that is joining meanwhile
				for _, later := range s.after(done) {
					have.send(later.upload)
					done = later.number
				}
				if !maps.Equal(have, all) {
					t.Fatalf("round %d: a node that joins has %v; the others have %v", round, have, all)
				}
			}
		}
		fresh := treeOf{}
		for _, up := range s.after(0) {
			fresh.send(up.upload)
		}
		if !maps.Equal(fresh, all) {
			t.Fatalf("round %d: a new node has %v; the others have %v", round, fresh, all)
		}
		if n := len(s.after(0)); n > len(different) {
			t.Fatalf("round %d: %d uploads are left of %d different ones", round, n, len(different))
		}
	}
}

// Of a path that is uploaded again and again, one is replayed, and one is kept on disk.
func TestRepeatedUploadsAreReplayedOnce(t *testing.T) {
	folder := upload{Local: "/src", Remote: "src"}
	model := func(i int) upload { return upload{Local: fmt.Sprint("/model-", i), Remote: "model", File: true} }
	var s uploads
	changes := 0
	for i := range 1000 {
		for _, up := range []upload{folder, folder, model(i)} {
			if s.add(up) {
				changes++
			}
		}
	}
	left := s.after(0)
	if len(left) != 2 || left[0].upload != folder || left[1].upload != model(999) {
		t.Errorf("%d are left: %+v", len(left), left)
	}
	if changes != 2000 {
		t.Errorf("%d changes are told, of 2000", changes)
	}
	if len(s.paths) != 2 || len(s.paths["src"]) != 1 || len(s.paths["model"]) != 1 {
		t.Errorf("what was superseded is kept: %v", s.paths)
	}
}
