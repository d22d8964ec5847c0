package transfer

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestSync(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		local := t.TempDir()
		at := filepath.Join(r.Dir, "src")
		tree{
			".gitignore": "*.log\n", "a.log": "no", ".git/config": "no", "sub/b.log": "no", "skipped/x": "no",
			"a": "one", "run": "#!/bin/sh\n", "sub/b": "two", "sub/new\nline \xff": "three", "sub/deep/c": "four", "link": "-> a", "void": "/",
		}.make(t, local)
		single := filepath.Join(t.TempDir(), "f")
		write(t, single, "five")
		entries := []Entry{{Local: local, Remote: "src", Exclude: []string{"skipped/"}}, {Local: single, Remote: "cfg/one file"}}
		want := tree{".gitignore": "*.log\n", "a": "one", "run": "#!/bin/sh\n", "sub/b": "two", "sub/new\nline \xff": "three", "sub/deep/c": "four", "link": "-> a", "void": "/"}
		digest := ""
		step := func(name string, stats Stats) {
			t.Helper()
			got, err := r.Sync(t.Context(), entries, nil)
			if got.Digest == digest && got.Sent > 0 && !strings.Contains(name, "repaired") || got.Digest != digest && name == "nothing changed" {
				t.Errorf("%s: the digest is %q, and was %q", name, got.Digest, digest)
			}
			digest, got.Digest = got.Digest, ""
			if err != nil || got != stats {
				t.Errorf("%s: %+v, %v; want %+v", name, got, err, stats)
			}
			want.compare(t, at)
			tree{"one file": "five"}.compare(t, filepath.Join(r.Dir, "cfg"))
			noneStaged(t, r)
		}
		step("first", Stats{Files: 8, Sent: 8, Bytes: 6 + 3 + 10 + 3 + 5 + 4 + 4})
		step("nothing changed", Stats{Files: 8})

		write(t, filepath.Join(at, "theirs"), "kept")
		want["theirs"] = "kept"
		step("something of theirs", Stats{Files: 8})

		write(t, filepath.Join(local, "a"), "changed")
		must(t, os.RemoveAll(filepath.Join(local, "sub/deep")))
		want["a"] = "changed"
		delete(want, "sub/deep/c")
		step("one changed, a folder gone", Stats{Files: 7, Sent: 1, Bytes: 7})

		write(t, filepath.Join(at, "sub/b"), "spoiled")
		must(t, os.Remove(filepath.Join(at, "a")))
		step("repaired on the node", Stats{Files: 7, Sent: 2, Bytes: 3 + 7})

		must(t, os.Chmod(filepath.Join(local, "sub/b"), 0o755))
		write(t, filepath.Join(local, "sub/b"), "#!two")
		must(t, os.Chmod(filepath.Join(local, "sub/b"), 0o755))
		want["sub/b"] = "#!two"
		step("mode", Stats{Files: 7, Sent: 1, Bytes: 5})

		// A file becomes a folder, and a folder becomes a file.
		must(t, os.Remove(filepath.Join(local, "a")))
		tree{"a/in": "six"}.make(t, local)
		must(t, os.RemoveAll(filepath.Join(local, "void")))
		write(t, filepath.Join(local, "void"), "seven")
		delete(want, "a")
		want["a/in"], want["void"] = "six", "seven"
		want["link"] = "-> a"
		step("kinds", Stats{Files: 8, Sent: 2, Bytes: 3 + 5})

		must(t, os.RemoveAll(at))
		delete(want, "theirs")
		got, err := r.Sync(t.Context(), entries, nil)
		if err != nil || got.Sent != 7 {
			t.Errorf("all gone on the node: %+v, %v", got, err)
		}

		entries = entries[1:]
		if _, err := r.Sync(t.Context(), entries, nil); err != nil || exists(at) {
			t.Errorf("an entry that is gone stays, %v", err)
		}
	})
}

func TestSyncIntoDirItself(t *testing.T) {
	r := node(t)
	local := t.TempDir()
	write(t, filepath.Join(local, "pkg/f"), "x")
	must(t, os.Chmod(filepath.Join(local, "pkg"), 0o750))
	write(t, filepath.Join(r.Dir, "theirs"), "kept")
	for i := range 2 {
		stats, err := r.Sync(t.Context(), []Entry{{Local: local, Remote: "."}, {Local: filepath.Join(local, "pkg/f"), Remote: "pkg/g"}}, nil)
		if stats.Digest = ""; err != nil || stats != (Stats{Files: 2, Sent: 2 - 2*i, Bytes: int64(2 - 2*i)}) {
			t.Errorf("%+v, %v", stats, err)
		}
		tree{"pkg/f": "x", "pkg/g": "x", "theirs": "kept"}.compare(t, r.Dir)
	}
	if info, err := os.Stat(filepath.Join(r.Dir, "pkg")); err != nil || info.Mode() != fs.ModeDir|0o750 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
	for _, remote := range []string{"", "/abs", "../up", "a/../../b", "nul\x00"} {
		if _, err := r.Sync(t.Context(), []Entry{{Local: local, Remote: remote}}, nil); err == nil {
			t.Errorf("Sync accepts the path %q", remote)
		}
	}
	if _, err := r.Sync(t.Context(), []Entry{{Local: filepath.Join(local, "no"), Remote: "x"}}, nil); err == nil {
		t.Error("Sync accepts a missing local path")
	}
}

func TestSyncSurvivesCuts(t *testing.T) {
	r, link := linked(t)
	local := t.TempDir()
	text := strings.Repeat("0123456789", 1<<20)
	tree{"a": text, "b": text}.make(t, local)
	link.CutAfter(5 << 20)
	stats, err := r.Sync(t.Context(), []Entry{{Local: local, Remote: "s"}}, nil)
	if err != nil || stats.Sent != 2 || link.Dials() < 2 {
		t.Errorf("%+v, %v, %d connections", stats, err, link.Dials())
	}
	tree{"a": text, "b": text}.compare(t, filepath.Join(r.Dir, "s"))
}

func FuzzManifest(f *testing.F) {
	f.Add(string(encodeManifest(nil)))
	f.Add(string(encodeManifest([]item{{name: "a\n", mode: 0o644, size: 3, sum: "s"}, {name: "b", mode: fs.ModeSymlink | 0o777, target: "a"}, {name: "c", mode: fs.ModeDir | 0o755}})) + "./a\x00")
	f.Fuzz(func(t *testing.T, text string) {
		m, _, err := decodeManifest(strings.Split(text, "\x00"))
		if err != nil {
			return
		}
		var items []item
		for name, e := range m {
			if !isBelow(name) {
				t.Errorf("%q leads out", name)
			}
			it := item{name: name, mode: e.mode, size: e.size, sum: e.detail, target: e.detail}
			if it.entry() == e {
				items = append(items, it)
			}
		}
		again, _, err := decodeManifest(strings.Split(string(encodeManifest(items)), "\x00"))
		if err != nil || len(items) == len(m) && !reflect.DeepEqual(again, m) {
			t.Errorf("%q came back as %v, %v", text, again, err)
		}
	})
}
