package transfer

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestNear(t *testing.T) {
	for _, shell := range []string{"dash", "bash", "busybox"} {
		t.Run(shell, func(t *testing.T) {
			r := withShell(t, shell)
			base := filepath.Join(filepath.Dir(r.Dir), "the task's\nown -dir")
			tree{"out/a.txt": "", "out/.hidden": "", "out/-n": "", "out/b\nc.txt": "", "out/sub/deep.txt": "", "out/dangling": "-> nowhere", "top": "", "none/": "/"}.make(t, base)
			for glob, want := range map[string]Near{
				"out/*.json":          {Folder: base + "/out", Others: []string{"-n", "a.txt", "b\nc.txt", "dangling", "sub/", ".hidden"}},
				"out/*.txt":           {Folder: base + "/out", Matching: []string{"a.txt", "b\nc.txt"}, Others: []string{"-n", "dangling", "sub/", ".hidden"}},
				"out/model.pt":        {Folder: base + "/out", Others: []string{"-n", "a.txt", "b\nc.txt", "dangling", "sub/", ".hidden"}},
				"out/a.txt":           {Folder: base + "/out", Matching: []string{"a.txt"}, Others: []string{"-n", "b\nc.txt", "dangling", "sub/", ".hidden"}},
				"no/such/folder/*":    {Folder: base, Matching: nil, Others: []string{"none/", "out/", "top"}},
				"out/sub/**/[a-c].gz": {Folder: base + "/out/sub", Others: []string{"deep.txt"}},
				"*":                   {Folder: base, Matching: []string{"top"}, Others: []string{"none/", "out/"}},
				"none/*":              {Folder: base + "/none"},
				".":                   {Folder: base, Matching: []string{"top"}, Others: []string{"none/", "out/"}},
			} {
				got, err := r.Near(t.Context(), []string{glob}, base)
				if err != nil || len(got) != 1 || got[0].Folder != want.Folder || got[0].More || !slices.Equal(got[0].Matching, want.Matching) || !slices.Equal(got[0].Others, want.Others) {
					t.Errorf("%s: %+q, %v, want %+q", glob, got, err, want)
				}
			}
			got, err := r.Near(t.Context(), []string{"x", "y"}, "gone")
			if err != nil || len(got) != 2 || got[0].String() != "" || got[1].String() != "" {
				t.Errorf("from a missing folder: %+v, %v", got, err)
			}
		})
	}
}

func TestNearManyNames(t *testing.T) {
	r := node(t)
	for i := range 1000 {
		write(t, filepath.Join(r.Dir, "many", fmt.Sprint(1000+i)), "")
	}
	tree{"few/1": "", "few/2": ""}.make(t, r.Dir)
	got, err := r.Near(t.Context(), []string{"many/*.x", "few/*.x", "many/105?"}, "")
	if err != nil || len(got) != 3 || !got[0].More || len(got[0].Others) != nearNames || got[1].More || len(got[2].Matching) != 10 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, want := range []string{
		`"` + r.Dir + `/many" has "1000", "1001", "1002", "1003", "1004", "1005" and more than 94 others`,
		`"` + r.Dir + `/few" has "1", "2"`,
		`"` + r.Dir + `/many" has "1050", "1051", "1052", "1053", "1054", "1055" and more than 94 others`,
	} {
		if got[i].String() != want {
			t.Errorf("%s, want %s", got[i], want)
		}
	}
	if text := (Near{Folder: "/x", Others: strings.Split("abcdefgh", "")}).String(); text != `"/x" has "a", "b", "c", "d", "e", "f" and 2 others` {
		t.Error(text)
	}
	if text := (Near{Folder: "/x"}).String(); text != `"/x" is empty` {
		t.Error(text)
	}
}

// Invalid answers of a node are refused, and the names that are kept are limited.
func TestNearRefuses(t *testing.T) {
	many := strings.Repeat("-x\x01", nearNames+2)
	for _, answer := range []string{"-x", "#1 .", "#x .", "#0 .\x01#0 .", "#0 .\x01#1 .", "?", "#0 .\x01=x", "#0 .\x01" + many} {
		l := nearList{globs: make([]glob, 1), near: make([]Near, 1), current: -1}
		var err error
		for record := range strings.SplitSeq(strings.TrimSuffix(answer, "\x01"), "\x01") {
			if err == nil {
				err = l.read(record)
			}
		}
		if err == nil {
			t.Errorf("the answer %.20q is accepted as %+v", answer, l.near)
		}
	}
}
