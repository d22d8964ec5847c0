package transfer

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDownloadTree(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		odd.make(t, filepath.Join(r.Dir, "x", "out"))
		must(t, os.Link(filepath.Join(r.Dir, "x/out/a"), filepath.Join(r.Dir, "x/out/twin")))
		want := tree{"twin": "one", "theirs": "kept"}
		for k, v := range odd {
			want[k] = v
		}
		local := filepath.Join(t.TempDir(), "not", "there")
		write(t, filepath.Join(local, "out/theirs"), "kept")
		write(t, filepath.Join(local, "out/a"), "old")
		for range 2 { // the second meets all that the first brought
			must(t, r.Download(t.Context(), "x/out", local))
			want.compare(t, filepath.Join(local, "out"))
		}
	})
}

func TestDownloadFile(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		local := t.TempDir()
		tree{"d/-run\n.sh": "#!/bin/sh\n", "link": "-> d/-run\n.sh", "dirlink": "-> d", "big": strings.Repeat("0123456789", 1<<20)}.make(t, r.Dir)
		must(t, r.Download(t.Context(), "d/-run\n.sh", local))
		must(t, r.Download(t.Context(), filepath.Join(r.Dir, "link"), local))
		must(t, r.Download(t.Context(), "dirlink", local))
		must(t, r.Download(t.Context(), "big", local))
		tree{"-run\n.sh": "#!/bin/sh\n", "link": "#!/bin/sh\n", "dirlink/-run\n.sh": "#!/bin/sh\n", "big": strings.Repeat("0123456789", 1<<20)}.compare(t, local)
	})
}

func TestDownloadErrors(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		for _, name := range []string{"no", "no/where", "/nonexistent/x"} {
			if err := r.Download(t.Context(), name, t.TempDir()); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: error %v, want fs.ErrNotExist", name, err)
			}
		}
		for _, name := range []string{"", "/", "a\x00"} {
			if err := r.Download(t.Context(), name, t.TempDir()); err == nil {
				t.Errorf("%q: no error", name)
			}
		}
		if err := r.Download(t.Context(), os.DevNull, t.TempDir()); err == nil || !strings.Contains(err.Error(), "neither a file nor a folder") {
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
		must(t, r.Download(t.Context(), "d", local))
		if link.Dials() < 2 {
			t.Error("nothing was cut")
		}
		tree{"d/a": text, "d/b": text}.compare(t, local)
	}
}

// TestHostileArchive unpacks what no honest node sends.
func TestHostileArchive(t *testing.T) {
	file := func(name string) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o6777, Size: 4}
	}
	link := func(name, to string) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	hard := func(name, to string) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
	}
	for _, tt := range []struct {
		name    string
		headers []*tar.Header
		fails   bool
	}{
		{"climbing name", []*tar.Header{file("../evil")}, true},
		{"climbing in the middle", []*tar.Header{file("a/../../evil")}, true},
		{"absolute name", []*tar.Header{file("/evil")}, true},
		{"through a link out", []*tar.Header{link("l", ".."), file("l/evil")}, true},
		{"through an absolute link", []*tar.Header{link("l", "/tmp"), file("l/gputrain-evil")}, true},
		{"through two links", []*tar.Header{{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o755}, link("d/l", ".."), link("m", "d/l/.."), file("m/evil")}, true},
		{"over a link", []*tar.Header{link("l", "../victim"), file("l")}, false},
		{"hard link out", []*tar.Header{hard("h", "../victim"), file("h")}, true},
		{"hard link through a link", []*tar.Header{link("l", "../victim"), hard("h", "l"), file("h")}, true},
		{"folder over a link", []*tar.Header{link("l", ".."), {Typeflag: tar.TypeDir, Name: "l/", Mode: 0o777}, file("l/evil")}, true},
		{"devices", []*tar.Header{{Typeflag: tar.TypeChar, Name: "dev", Devmajor: 1}, {Typeflag: tar.TypeFifo, Name: "fifo"}}, false},
		{"the folder itself as a file", []*tar.Header{file(".")}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			outer := t.TempDir()
			write(t, filepath.Join(outer, "victim"), "untouched")
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for _, h := range tt.headers {
				must(t, w.WriteHeader(h))
				io.WriteString(w, "evil"[:h.Size])
			}
			must(t, w.Close())
			l, err := openLanding(filepath.Join(outer, "in"))
			must(t, err)
			defer l.close()
			err = l.unpack(tar.NewReader(&b), func(n string) (string, bool) { return n, true }, nil)
			if (err != nil) != tt.fails {
				t.Errorf("error %v, want one: %v", err, tt.fails)
			}
			os.RemoveAll(filepath.Join(outer, "in"))
			tree{"victim": "untouched"}.compare(t, outer)
		})
	}
	if exists("/tmp/gputrain-evil") {
		t.Error("a file was written outside")
	}
}

func FuzzUnpack(f *testing.F) {
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeReg, Name: "a/b", Size: 1}, {Typeflag: tar.TypeSymlink, Name: "l", Linkname: ".."},
		{Typeflag: tar.TypeLink, Name: "h", Linkname: "a"}, {Typeflag: tar.TypeDir, Name: "d/"},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		w.WriteHeader(&h)
		w.Write([]byte("x"))
		w.Close()
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, archive []byte) {
		outer := t.TempDir()
		l, err := openLanding(filepath.Join(outer, "in"))
		must(t, err)
		l.unpack(tar.NewReader(bytes.NewReader(archive)), func(n string) (string, bool) { return n, true }, func(File) {})
		l.close()
		if names, _ := os.ReadDir(outer); len(names) != 1 {
			t.Errorf("the archive reached %v", names)
		}
	})
}
