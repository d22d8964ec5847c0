package transfer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func names(files []File) (names []string) {
	for _, f := range files {
		names = append(names, f.Name)
	}
	return names
}

// inProcess returns a Remote for a server in this process, which answers faster than a real one.
func inProcess(t *testing.T) *Remote {
	r := withShell(t, "sh")
	must(t, os.Mkdir(r.Dir, 0o755))
	return r
}

// waysInProcess is ways with inProcess.
func waysInProcess(t *testing.T, test func(*testing.T, *Remote)) {
	for name, tar := range map[string]bool{"tar": true, "sftp": false} {
		t.Run(name, func(t *testing.T) {
			r := inProcess(t)
			r.Tools.Tar = tar
			test(t, r)
		})
	}
}

// Copies follow what a program does with its files: they are added, replaced and kept, and a name may change its kind.
func TestCopies(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		local := filepath.Join(t.TempDir(), "outputs")
		c := NewCopies(local)
		bring := func(want tree) {
			t.Helper()
			must(t, r.Bring(t.Context(), []string{"out/**", "none/*"}, c, FetchOptions{}))
			want.compare(t, local)
			if got, list := contents(t, local), names(c.Files()); len(list) != len(want) || len(got) != len(want) {
				t.Errorf("%q are listed, of %d", list, len(want))
			}
			if _, err := os.Lstat(local + arriving); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder of arrivals is left: %v", err)
			}
		}
		must(t, r.Bring(t.Context(), []string{"**"}, c, FetchOptions{}))
		if files := c.Files(); files != nil {
			t.Errorf("of an empty folder: %v", files)
		}
		tree{"out/a": "one", "out/b\\c d": "two", "out/deep/x": "three"}.make(t, r.Dir)
		bring(tree{"out/a": "one", "out/b\\c d": "two", "out/deep/x": "three"})
		write(t, filepath.Join(r.Dir, "out/a"), "ONE")
		must(t, os.Remove(filepath.Join(r.Dir, "out/b\\c d")))
		bring(tree{"out/a": "ONE", "out/b\\c d": "two", "out/deep/x": "three"})
		must(t, os.RemoveAll(filepath.Join(r.Dir, "out/deep")))
		must(t, os.Remove(filepath.Join(r.Dir, "out/a")))
		tree{"out/deep": "a file now", "out/a/1": "a folder now"}.make(t, r.Dir)
		bring(tree{"out/a/1": "a folder now", "out/b\\c d": "two", "out/deep": "a file now"})

		again := NewCopies(local) // in another program
		must(t, again.Recall())
		if !slices.Equal(again.Files(), c.Files()) {
			t.Errorf("%v are recalled, want %v", again.Files(), c.Files())
		}
		if err := NewCopies(local + "-none").Recall(); err != nil {
			t.Error(err)
		}
	})
}

// A settled file is copied once. The test looks at which copies are replaced.
func TestCopiesOnlyWhatChanged(t *testing.T) {
	patience := stampPatience
	stampPatience = -time.Hour // every file counts as settled
	defer func() { stampPatience = patience }()
	waysInProcess(t, func(t *testing.T, r *Remote) {
		local := filepath.Join(t.TempDir(), "outputs")
		c := NewCopies(local)
		tree{"a": "1", "b": "2"}.make(t, r.Dir)
		for name, want := range map[string]bool{"a": false, "b": true} {
			must(t, r.Bring(t.Context(), []string{"*"}, c, FetchOptions{}))
			before, err := os.Stat(filepath.Join(local, name))
			must(t, err)
			if want {
				write(t, filepath.Join(r.Dir, name), "longer")
			}
			must(t, r.Bring(t.Context(), []string{"*"}, c, FetchOptions{}))
			after, err := os.Stat(filepath.Join(local, name))
			must(t, err)
			if os.SameFile(before, after) == want {
				t.Errorf("%s was copied again: %v, want %v", name, !want, want)
			}
		}
		write(t, filepath.Join(r.Dir, "scratch/a"), "1") // of another folder, with the same name
		must(t, r.Bring(t.Context(), []string{"*"}, c, FetchOptions{Dir: "scratch"}))
		if from := c.files["a"].from; filepath.Base(from) != "scratch" {
			t.Errorf("the copy is from %s", from)
		}
	})
}

// A file that grows arrives as a beginning of it, and one that is written over keeps its last copy.
func TestCopiesOfFilesThatAreWritten(t *testing.T) {
	waysInProcess(t, func(t *testing.T, r *Remote) {
		local := filepath.Join(t.TempDir(), "outputs")
		c := NewCopies(local)
		tree{"grows": "one\n", "changes": "old", "stays": "here"}.make(t, r.Dir)
		must(t, r.Bring(t.Context(), []string{"*"}, c, FetchOptions{}))

		// The program for sums runs after the files were read.
		r.Tools.SHA256 = `sh -c 'echo more >>grows; echo new >changes; rm -f gone; exec sha256sum "$@"' sh`
		tree{"grows": "one\ntwo\n", "changes": "between", "gone": "soon"}.make(t, r.Dir)
		err := r.Bring(t.Context(), []string{"*"}, c, FetchOptions{})
		if !errors.Is(err, ErrUnsettled) || !strings.Contains(err.Error(), `"changes"`) || strings.Contains(err.Error(), "grows") || strings.Contains(err.Error(), "gone") {
			t.Errorf("%v", err)
		}
		tree{"grows": "one\ntwo\n", "changes": "old", "stays": "here"}.compare(t, local)

		r.Tools.SHA256 = "sha256sum"
		must(t, r.Bring(t.Context(), []string{"*"}, c, FetchOptions{}))
		got := contents(t, local)
		if got["changes"] != "new\n" || !strings.HasPrefix(got["grows"], "one\ntwo\nmore\n") {
			t.Errorf("%q", got)
		}
		r.Tools.SHA256 = ""
		write(t, filepath.Join(r.Dir, "changes"), "later")
		must(t, r.Bring(t.Context(), []string{"changes"}, c, FetchOptions{}))
		if got := contents(t, local)["changes"]; got != "later" {
			t.Errorf("without sums: %q", got)
		}
	})
}

// Only what was written since the marker counts. Without a marker nothing has begun, and so nothing does.
func TestCopiesSince(t *testing.T) {
	r := inProcess(t)
	local := filepath.Join(t.TempDir(), "outputs")
	c := NewCopies(local)
	write(t, filepath.Join(r.Dir, "old"), "old")
	since := FetchOptions{Since: filepath.Join(t.TempDir(), "marker")}
	must(t, r.Bring(t.Context(), []string{"*"}, c, since))
	if files := c.Files(); files != nil {
		t.Errorf("without a marker: %v", files)
	}
	time.Sleep(20 * time.Millisecond) // more than a tick of the file system's clock
	write(t, since.Since, "")
	write(t, filepath.Join(r.Dir, "new"), "new")
	must(t, r.Bring(t.Context(), []string{"*"}, c, since))
	tree{"new": "new"}.compare(t, local)
}

// The limits hold for all copies together, and a copy that is replaced does not count.
func TestCopiesHaveLimits(t *testing.T) {
	r := inProcess(t)
	c := NewCopies(filepath.Join(t.TempDir(), "outputs"))
	most := FetchOptions{Limits: Limits{Bytes: 10, Files: 2}}
	for _, text := range []string{"123456", "654321", "abcdef"} {
		write(t, filepath.Join(r.Dir, "a"), text)
		must(t, r.Bring(t.Context(), []string{"*"}, c, most))
	}
	must(t, os.Remove(filepath.Join(r.Dir, "a")))
	write(t, filepath.Join(r.Dir, "b"), "12345")
	var limit *LimitError
	if err := r.Bring(t.Context(), []string{"*"}, c, most); !errors.As(err, &limit) || limit.Files {
		t.Errorf("11 bytes: %v", err)
	}
	write(t, filepath.Join(r.Dir, "b"), "1234")
	must(t, r.Bring(t.Context(), []string{"*"}, c, most))
	must(t, os.Remove(filepath.Join(r.Dir, "b")))
	write(t, filepath.Join(r.Dir, "c"), "")
	if err := r.Bring(t.Context(), []string{"*"}, c, most); !errors.As(err, &limit) || !limit.Files {
		t.Errorf("three files: %v", err)
	}
	if got := names(c.Files()); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q are left", got)
	}
}

// TestCopiesInShells runs Bring with each shell, with a stat and without.
func TestCopiesInShells(t *testing.T) {
	for _, shell := range []string{"dash", "bash", "busybox"} {
		for _, broken := range [][]string{nil, {"stat"}} {
			t.Run(shell+strings.Join(broken, ""), func(t *testing.T) {
				r := withShell(t, shell, broken...)
				local, marker := filepath.Join(t.TempDir(), "outputs"), filepath.Join(t.TempDir(), "marker")
				c := NewCopies(local)
				write(t, marker, "")
				r.Tools.SHA256 = `sh -c 'echo more >>grows; exec sha256sum "$@"' sh`
				want := tree{"grows": "one\n", "b\\c d": "two", "-n": "three"}
				want.make(t, r.Dir)
				must(t, r.Bring(t.Context(), []string{"*"}, c, FetchOptions{Since: marker}))
				want.compare(t, local)
				write(t, filepath.Join(r.Dir, "-n"), "four")
				delete(want, "grows")
				want["-n"] = "four"
				must(t, r.Bring(t.Context(), []string{"[!g]*"}, c, FetchOptions{}))
				for name, text := range want {
					if got := contents(t, local)[name]; got != text {
						t.Errorf("%s is %q, want %q", name, got, text)
					}
				}
			})
		}
	}
}
