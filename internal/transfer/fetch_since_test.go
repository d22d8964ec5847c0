package transfer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFetchSince fetches files from before and after a marker, for each way to compare their times.
func TestFetchSince(t *testing.T) {
	for _, tt := range []struct {
		name, shell string
		broken      []string // programs that fail; busybox's shell has its own stat, whatever is in the PATH
	}{
		{"dash", "dash", nil},
		{"bash", "bash", nil},
		{"busybox", "busybox", nil},
		{"dash without stat", "dash", []string{"stat"}},
		{"bash without stat", "bash", []string{"stat"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := withShell(t, tt.shell, tt.broken...)
			base := filepath.Join(filepath.Dir(r.Dir), "the attempt's\nscratch")
			long := time.Now().Add(-time.Hour)
			tree{"out/old": "old", "out/rewritten": "old", "old.json": "old", "deep/er/old": "old"}.make(t, base)
			for _, n := range []string{"out/old", "old.json", "deep/er/old"} {
				must(t, os.Chtimes(filepath.Join(base, n), long, long))
			}
			marker := filepath.Join(base, "-marker")
			later(t, filepath.Join(base, "deep/er/old"), marker)

			tree{"out/new": "new", "out/rewritten": "new", "new.json": "new", "out/a b =x .c": "new", "kept": "new",
				"to old": "-> out/old", "to new": "-> out/new"}.make(t, base)
			must(t, os.Chtimes(filepath.Join(base, "kept"), long, long))
			want := []string{"kept", "new.json", "out/a b =x .c", "out/new", "out/rewritten", "to new"}
			fetch := func(since string, globs ...string) []string {
				t.Helper()
				files, err := r.Fetch(t.Context(), globs, t.TempDir(), FetchOptions{Dir: base, Since: since})
				must(t, err)
				var names []string
				for _, f := range files {
					names = append(names, f.Name)
				}
				return names
			}
			for _, globs := range [][]string{
				{"**/*.json", "**/old", "**/new", "k*", "to *", "out/a*", "out/rewritten", "deep/er/old"},
				{"deep", "old.json", "new.json", "kept", "to*", "out"},
			} {
				if got := fetch(marker, globs...); !slices.Equal(got, want) {
					t.Errorf("Fetch(%q) brought %q, want %q", globs, got, want)
				}
			}
			if got := fetch("", "**/old*"); len(got) != 3 {
				t.Errorf("without a marker: %q", got)
			}
			// The file has the same time as the marker.
			info, err := os.Stat(filepath.Join(base, "out/new"))
			must(t, err)
			must(t, os.Chtimes(marker, info.ModTime(), info.ModTime()))
			if got := fetch(marker, "out/new"); len(got) != 1 {
				t.Error("a file written in the marker's own tick was not fetched")
			}
			must(t, os.Remove(marker))
			if _, err := r.Fetch(t.Context(), []string{"*"}, t.TempDir(), FetchOptions{Dir: base, Since: marker}); err == nil || !strings.Contains(err.Error(), "the marker ") {
				t.Errorf("without the marker: %v", err)
			}
		})
	}
}

// later writes a file until its time is after the last change of the file than.
func later(t *testing.T, than, name string) {
	t.Helper()
	probe := than + " probe" // made now, so its time is not before than's last change
	write(t, probe, "")
	was, err := os.Stat(probe)
	must(t, err)
	must(t, os.Remove(probe))
	for {
		write(t, name, "")
		if is, err := os.Stat(name); err != nil || is.ModTime().After(was.ModTime()) {
			must(t, err)
			return
		}
	}
}

func TestFetchFromAnotherDir(t *testing.T) {
	r := node(t)
	scratch := t.TempDir()
	tree{"out/a": "theirs"}.make(t, r.Dir)
	tree{"out/a": "mine", "out/b": "mine"}.make(t, scratch)
	for dir, want := range map[string]int{"": 1, scratch: 2, "out": 0, filepath.Join(scratch, "no"): 0} {
		files, err := r.Fetch(t.Context(), []string{"out/*"}, t.TempDir(), FetchOptions{Dir: dir})
		if err != nil || len(files) != want {
			t.Errorf("%q: %+v, %v", dir, files, err)
		}
	}
	// The name of a marker is relative to the Remote's folder, as Dir is.
	write(t, filepath.Join(r.Dir, "marker"), "")
	must(t, os.Chtimes(filepath.Join(r.Dir, "marker"), time.Now(), time.Now().Add(-time.Hour)))
	if files, err := r.Fetch(t.Context(), []string{"a"}, t.TempDir(), FetchOptions{Dir: "out", Since: "marker"}); err != nil || len(files) != 1 {
		t.Errorf("%+v, %v", files, err)
	}
}
