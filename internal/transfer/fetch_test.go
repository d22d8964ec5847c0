package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/ssh"
)

func TestFetch(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		files := tree{
			"out/a.json": "{}", "out/b c.json": "{ }", "out/back\\slash.json": "0", "out/\xff.json": "1",
			"out/deep/er/c.json": "2", "out/x.txt": "x", "-n/-rf": "3", "top.bin": "\x00\xff", "empty": "", "logs/1": "l1", "logs/sub/2": "l2",
			"latest.json": "-> out/a.json", "out/dir.json/x": "in a folder", "linked": "-> logs", "out/dangling.json": "-> nowhere",
		}
		files.make(t, r.Dir)
		must(t, os.Link(filepath.Join(r.Dir, "out/a.json"), filepath.Join(r.Dir, "out/a2.json")))
		for _, tt := range []struct {
			globs []string
			want  []string
		}{
			{[]string{"out/*.json"}, []string{"out/a.json", "out/a2.json", "out/b c.json", "out/back\\slash.json", "out/\xff.json"}},
			{[]string{"**/c.json", "out/**/c.json"}, []string{"out/deep/er/c.json"}},
			{[]string{"out/{a,x}.*"}, []string{"out/a.json", "out/x.txt"}},
			{[]string{"*", "nothing/*", "no"}, []string{"top.bin", "empty", "latest.json"}},
			{[]string{"./logs/", "-n/*"}, []string{"logs/1", "logs/sub/2", "-n/-rf"}},
			{[]string{"linked"}, []string{"linked/1", "linked/sub/2"}},
			{[]string{"top.bin", "latest.json"}, []string{"top.bin", "latest.json"}},
			{[]string{`out/back\\slash.json`, `out/b\ c.json`}, []string{"out/back\\slash.json", "out/b c.json"}},
			{[]string{"none"}, nil},
			{nil, nil},
		} {
			t.Run(fmt.Sprintf("%q", tt.globs), func(t *testing.T) {
				local := filepath.Join(t.TempDir(), "results")
				got, err := r.Fetch(t.Context(), tt.globs, local, FetchOptions{})
				must(t, err)
				var names []string
				for _, f := range got {
					names = append(names, f.Name)
					want, err := os.ReadFile(filepath.Join(r.Dir, f.Name))
					must(t, err)
					text, err := os.ReadFile(filepath.Join(local, f.Name))
					sum := sha256.Sum256(want)
					if err != nil || string(text) != string(want) || f.Size != int64(len(want)) || f.SHA256 != hex.EncodeToString(sum[:]) {
						t.Errorf("%q arrived as %q, %v: %+v", f.Name, text, err, f)
					}
				}
				slices.Sort(tt.want)
				if !slices.Equal(names, tt.want) {
					t.Errorf("brought %q, want %q", names, tt.want)
				}
			})
		}
		files2, err := r.Fetch(t.Context(), []string{"none", "out/*.txt", "x*"}, t.TempDir(), FetchOptions{})
		if un := Unmatched([]string{"none", "out/*.txt", "x*"}, files2); err != nil || !slices.Equal(un, []string{"none", "x*"}) {
			t.Errorf("unmatched %q, %v", un, err)
		}
		r.Tools.SHA256 = "" // sizes only
		if got, err := r.Fetch(t.Context(), []string{"top.bin"}, t.TempDir(), FetchOptions{}); err != nil || len(got) != 1 || got[0].SHA256 == "" {
			t.Errorf("without sums: %v, %v", got, err)
		}
		gone := *r
		gone.Dir = filepath.Join(r.Dir, "no such folder")
		if got, err := gone.Fetch(t.Context(), []string{"*"}, t.TempDir(), FetchOptions{}); err != nil || got != nil {
			t.Errorf("from a missing folder: %v, %v", got, err)
		}
	})
}

func TestFetchManyFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it makes many files")
	}
	r := node(t)
	want := 0
	for i := range 1500 {
		write(t, filepath.Join(r.Dir, "many", fmt.Sprintf("%060d-%d", i, i)), fmt.Sprint(i))
		want++
	}
	got, err := r.Fetch(t.Context(), []string{"many/*"}, t.TempDir(), FetchOptions{})
	if err != nil || len(got) != want {
		t.Errorf("%d files, %v; want %d", len(got), err, want)
	}
}

// TestFetchIsKilled kills what runs on the node for the first attempts, as whoever kills the server does.
func TestFetchIsKilled(t *testing.T) {
	for _, kills := range []int{attempts - 1, attempts} {
		r := node(t)
		tree{"out": "content"}.make(t, r.Dir)
		count := filepath.Join(t.TempDir(), "count")
		r.Tools.SHA256 = fmt.Sprintf("die() { echo >>%[1]s; [ $(wc -l <%[1]s) -gt %[2]d ] || kill -KILL 0; sha256sum \"$@\"; }; die", count, kills)
		got, err := r.Fetch(t.Context(), []string{"out"}, t.TempDir(), FetchOptions{})
		if exit, ok := errors.AsType[*ssh.ExitError](err); kills == attempts && (!ok || exit.Signal != "KILL") || kills < attempts && (err != nil || len(got) != 1) {
			t.Errorf("after %d kills: %v, %v", kills, got, err)
		}
	}
}

func TestFetchRefuses(t *testing.T) {
	for _, g := range []string{"", "/etc/*", "../x", "a/../../b", "a/../b", "[", "{a", "a\x00", "a/.."} {
		if got, err := parseGlob(g); err == nil {
			t.Errorf("the pattern %q is accepted as %+v", g, got)
		}
	}
}

// TestFetchChecks fetches from a node that reports wrong checksums.
func TestFetchChecks(t *testing.T) {
	r := node(t)
	tree{"a": "one", "b": "two"}.make(t, r.Dir)
	r.Tools.SHA256 = "lie() { for f; do echo " + strings.Repeat("0", 64) + " $f; done; }; lie"
	local := t.TempDir()
	if _, err := r.Fetch(t.Context(), []string{"*"}, local, FetchOptions{}); err == nil || !strings.Contains(err.Error(), `"a" is not what the node has`) {
		t.Errorf("error %v", err)
	}
	if exists(filepath.Join(local, "a")) {
		t.Error("a file with a wrong checksum was kept")
	}
}

func FuzzGlob(f *testing.F) {
	for _, g := range []string{"a", "a/*.json", "**/x", "{a,../b}/c", `\.\./x*`, "[a-z]/..", "./a//b", "/", "~"} {
		f.Add(g, "../x")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		g, err := parseGlob(text)
		if err != nil {
			return
		}
		if g.base == "" || !fs.ValidPath(strings.ToValidUTF8(g.base, "x")) {
			t.Errorf("%q looks in %q", text, g.base)
		}
		g.match(name)
	})
}

func FuzzQuote(f *testing.F) {
	f.Add("a'b\\c\n$(x)`y`")
	f.Fuzz(func(t *testing.T, s string) {
		// The loop parses as sh does: quotes open and close, and only \' stands outside of them.
		var got strings.Builder
		rest := quote(s)
		for rest != "" {
			if tail, ok := strings.CutPrefix(rest, `\'`); ok {
				got.WriteByte('\'')
				rest = tail
				continue
			}
			inside, tail, ok := strings.Cut(rest[1:], "'")
			if rest[0] != '\'' || !ok {
				t.Fatalf("quote(%q) = %q", s, quote(s))
			}
			got.WriteString(inside)
			rest = tail
		}
		if got.String() != s {
			t.Errorf("quote(%q) = %q, which sh reads as %q", s, quote(s), got.String())
		}
	})
}
