package transfer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDownloadTree(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		plain.make(t, filepath.Join(r.Dir, "x", "out"))
		must(t, os.Link(filepath.Join(r.Dir, "x/out/a"), filepath.Join(r.Dir, "x/out/twin")))
		want := tree{"twin": "one", "theirs": "kept"}
		for k, v := range plain {
			want[k] = v
		}
		local := filepath.Join(t.TempDir(), "not", "there")
		write(t, filepath.Join(local, "out/theirs"), "kept")
		write(t, filepath.Join(local, "out/a"), "old")
		for range 2 { // the second download finds all files of the first
			must(t, r.Download(t.Context(), "x/out", local, DownloadOptions{}))
			want.compare(t, filepath.Join(local, "out"))
		}
	})
}

func TestDownloadFile(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		local := t.TempDir()
		tree{"d/-run\n.sh": "#!/bin/sh\n", "link": "-> d/-run\n.sh", "e/f": "#!/bin/sh\n", "dirlink": "-> e", "big": strings.Repeat("0123456789", 1<<20)}.make(t, r.Dir)
		must(t, r.Download(t.Context(), "d/-run\n.sh", local, DownloadOptions{}))
		must(t, r.Download(t.Context(), filepath.Join(r.Dir, "link"), local, DownloadOptions{}))
		must(t, r.Download(t.Context(), "dirlink", local, DownloadOptions{}))
		must(t, r.Download(t.Context(), "big", local, DownloadOptions{}))
		tree{"-run\n.sh": "#!/bin/sh\n", "link": "#!/bin/sh\n", "dirlink/f": "#!/bin/sh\n", "big": strings.Repeat("0123456789", 1<<20)}.compare(t, local)
	})
}

func TestDownloadErrors(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		for _, name := range []string{"no", "no/where", "/nonexistent/x"} {
			if err := r.Download(t.Context(), name, t.TempDir(), DownloadOptions{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: error %v, want fs.ErrNotExist", name, err)
			}
		}
		for _, name := range []string{"", "/", "a\x00"} {
			if err := r.Download(t.Context(), name, t.TempDir(), DownloadOptions{}); err == nil {
				t.Errorf("%q: no error", name)
			}
		}
		if err := r.Download(t.Context(), os.DevNull, t.TempDir(), DownloadOptions{}); err == nil || !strings.Contains(err.Error(), "neither a file nor a folder") {
			t.Errorf("a device: %v", err)
		}
	})
}

func TestDownloadSurvivesCuts(t *testing.T) {
	for _, tar := range []bool{true, false} {
		r, link := linked(t)
		r.Tools.Tar = tar
		text := strings.Repeat("0123456789", 1<<20)
		tree{"d/a": text, "d/b": text}.make(t, r.Dir)
		local := t.TempDir()
		link.CutAfter(12 << 20)
		must(t, r.Download(t.Context(), "d", local, DownloadOptions{}))
		if link.Dials() < 2 {
			t.Error("nothing was cut")
		}
		tree{"d/a": text, "d/b": text}.compare(t, local)
	}
}
