package transfer

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/disktest"
)

// odd is a tree with all kinds of names and links.
var odd = tree{
	"a":                   "one",
	"empty":               "",
	"run.sh":              "#!/bin/sh\n",
	"with space/b c":      "two",
	"new\nline/x\ny":      "three",
	"-rf/-n":              "four",
	"bytes \xff\xfe/\x80": "five",
	"quote'\"$`\\/*?[":    "six",
	".hidden/..odd":       "seven",
	"..two":               "dots",
	"void/in/void":        "/",
	"sub/link":            "-> ../a",
	"dangling":            "-> nowhere",
	"down":                "-> sub",
	"é/日本":                "eight",
	strings.Repeat("long/", 60) + strings.Repeat("n", 200): "nine",
}

// plain is odd without the folder controlled, whose name is refused if a node sends it.
var plain = func() tree {
	tr := maps.Clone(odd)
	maps.DeleteFunc(tr, func(name, _ string) bool { return strings.HasPrefix(name, controlled+"/") })
	return tr
}()

const controlled = "new\nline"

func TestUploadTree(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		local := t.TempDir()
		odd.make(t, local)
		must(t, r.Upload(t.Context(), local, "x/new tree", Options{}))
		odd.compare(t, filepath.Join(r.Dir, "x/new tree"))

		// The second upload has changed, kept and new files.
		write(t, filepath.Join(r.Dir, "x/new tree/sub/theirs"), "kept")
		write(t, filepath.Join(local, "a"), "changed")
		write(t, filepath.Join(local, "sub/added/f"), "new")
		must(t, r.Upload(t.Context(), local, "x/new tree", Options{}))
		want := tree{}
		for k, v := range odd {
			want[k] = v
		}
		want["a"], want["sub/added/f"], want["sub/theirs"] = "changed", "new", "kept"
		want.compare(t, filepath.Join(r.Dir, "x/new tree"))
	})
}

// TestUploadFollowsOutsideLinks uploads the targets of links that lead out.
func TestUploadFollowsOutsideLinks(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		local, outside := t.TempDir(), t.TempDir()
		tree{"f": "far", "d/g": "gone", "d/up": "-> ../f", "d/in": "-> g"}.make(t, outside)
		tree{
			"file":    "-> " + filepath.Join(outside, "f"),
			"folder":  "-> " + outside,
			"climbs":  "-> ../" + filepath.Base(outside) + "/f",
			"missing": "-> /nonexistent",
		}.make(t, local)
		must(t, r.Upload(t.Context(), local, "l", Options{Links: FollowOutside}))
		tree{
			"file": "far", "folder/f": "far", "folder/d/g": "gone", "folder/d/up": "-> ../f", "folder/d/in": "-> g",
			"missing": "-> /nonexistent", "climbs": map[bool]string{true: "far", false: "-> ../" + filepath.Base(outside) + "/f"}[exists(filepath.Join(local, "climbs"))],
		}.compare(t, filepath.Join(r.Dir, "l"))

		must(t, os.Symlink(local, filepath.Join(local, "loop")))
		if err := r.Upload(t.Context(), local, "loop", Options{Links: FollowOutside}); err == nil || !strings.Contains(err.Error(), "leave it out") {
			t.Errorf("a link to its own folder: %v", err)
		}
		must(t, r.Upload(t.Context(), local, "noloop", Options{Links: FollowOutside, Exclude: []string{"loop", "folder", "*ing"}}))
		if got := contents(t, filepath.Join(r.Dir, "noloop")); got["file"] != "far" || got["missing"] != "" || got["folder/f"] != "" {
			t.Errorf("with patterns: %q", got)
		}
	})
}

// TestUploadRefusesOutsideLinks uploads links that lead out, and some that only seem to.
func TestUploadRefusesOutsideLinks(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		outer := t.TempDir()
		inside := tree{
			"f": "f", "d/e/f": "f", "down": "-> d/e", "d/up": "-> ../f", "chain": "-> down/../../f", "dangling": "-> d/none", "self": "-> self", "dot": "-> .",
		}
		out := tree{
			"absolute": "-> /etc/passwd", "home": "-> " + outer + "/up/f", "climbs": "-> ../secret", "d/climbs": "-> ../../secret", "none": "-> ../none", "nowhere": "-> /nonexistent",
			"by another": "-> d/climbs", "by a folder": "-> down/../../../secret", "folder": "-> ..", "through": "-> folder/secret",
		}
		write(t, filepath.Join(outer, "secret"), "secret")
		local := filepath.Join(outer, "up")
		inside.make(t, local)
		must(t, os.Symlink("up", filepath.Join(outer, "named"))) // the path that the caller names may be a link
		must(t, r.Upload(t.Context(), filepath.Join(outer, "named"), "inside", Options{}))
		inside.compare(t, filepath.Join(r.Dir, "inside"))

		out.make(t, local)
		err := r.Upload(t.Context(), local, "refused", Options{})
		if !errors.Is(err, ErrOutsideLink) || !errors.Is(Options{}.Check(local), ErrOutsideLink) || exists(filepath.Join(r.Dir, "refused")) {
			t.Fatalf("error %v, by Check %v", err, Options{}.Check(local))
		}
		for name, target := range out {
			if !strings.Contains(err.Error(), strconv.Quote(name)+strings.Replace(target, "-> ", ` -> "`, 1)) {
				t.Errorf("the error does not name %q: %v", name, err)
			}
		}
		for name := range inside {
			if strings.Contains(err.Error(), strconv.Quote(name)+" ->") {
				t.Errorf("the error names %q: %v", name, err)
			}
		}
		must(t, r.Upload(t.Context(), local, "skipped", Options{Links: SkipOutside}))
		inside.compare(t, filepath.Join(r.Dir, "skipped"))
	})
}

// TestUploadOfWhatBecomesALink replaces a file after its folder was listed.
func TestUploadOfWhatBecomesALink(t *testing.T) {
	for name, replace := range map[string]func(file string) error{
		"a link out":    func(file string) error { return os.Symlink("../../secret", file) },
		"a link inside": func(file string) error { return os.Symlink("other", file) },
		"a pipe":        func(file string) error { return exec.Command("mkfifo", file).Run() },
		"a folder":      func(file string) error { return os.Mkdir(file, 0o700) },
		"a link of its folder": func(file string) error {
			os.RemoveAll(filepath.Dir(file))
			return os.Symlink("../elsewhere", filepath.Dir(file))
		},
	} {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			tree{"up/d/f": "good", "up/d/other": "other", "secret": "bad", "elsewhere/f": "bad"}.make(t, outer)
			dir := filepath.Join(outer, "up")
			root, err := os.OpenRoot(dir)
			must(t, err)
			defer root.Close()
			items, err := scan(root, dir, nil, false, RefuseOutside, nil)
			must(t, err)
			it := &items[slices.IndexFunc(items, func(it item) bool { return it.name == "d/f" })]
			o := open(it)
			must(t, o.err)
			o.close()
			must(t, os.Remove(it.local))
			must(t, replace(it.local))
			if o := open(it); o.err == nil {
				o.close()
				t.Error("it was opened")
			}
			if sum, err := hashOf(t.Context(), it); err == nil {
				t.Errorf("its sum is %s", sum)
			}
		})
	}
}

func exists(name string) bool { _, err := os.Stat(name); return err == nil }

func TestUploadTreeModes(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		local := t.TempDir()
		write(t, filepath.Join(local, "closed/f"), "x")
		must(t, os.Chmod(filepath.Join(local, "closed/f"), 0o440))
		must(t, os.Chmod(filepath.Join(local, "closed"), 0o555))
		t.Cleanup(func() {
			os.Chmod(filepath.Join(local, "closed"), 0o755)
			os.Chmod(filepath.Join(r.Dir, "m/closed"), 0o755)
		})
		must(t, r.Upload(t.Context(), local, "m", Options{}))
		for name, want := range map[string]fs.FileMode{"m/closed": fs.ModeDir | 0o555, "m/closed/f": 0o440} {
			if info, err := os.Stat(filepath.Join(r.Dir, name)); err != nil || info.Mode() != want {
				t.Errorf("%s: %v, %v; want mode %v", name, info.Mode(), err, want)
			}
		}
	})
}

func TestUploadTreeMeetsOtherKinds(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		local := t.TempDir()
		tree{"dir/f": "x"}.make(t, local)
		write(t, filepath.Join(r.Dir, "t/dir"), "a file")
		err := r.Upload(t.Context(), local, "t", Options{})
		if err == nil || !strings.Contains(err.Error(), "is a folder on this machine, but not on the node") {
			t.Errorf("a folder over a file: %v", err)
		}
		tree{"t/dir": "a file"}.compare(t, r.Dir)
	})
}

func TestUploadFile(t *testing.T) {
	r := node(t)
	dir := t.TempDir()
	for _, size := range []int{0, 1, chunk - 1, bulkSize, bulkSize + 1, 37*block + 12345} {
		content := make([]byte, size)
		rand.NewChaCha8([32]byte{1}).Read(content)
		local := filepath.Join(dir, "f")
		must(t, os.WriteFile(local, content, 0o754))
		must(t, os.Chmod(local, 0o754))
		var sent int64
		must(t, r.Upload(t.Context(), local, "deep/er/-x 'q'\n\xff", Options{Progress: func(n, _ int64) { sent = n }}))
		at := filepath.Join(r.Dir, "deep/er/-x 'q'\n\xff")
		got, err := os.ReadFile(at)
		must(t, err)
		if !bytes.Equal(got, content) || sent != int64(size) {
			t.Errorf("of %d bytes %d arrived, or they differ, with %d reported", size, len(got), sent)
		}
		if info, _ := os.Stat(at); info.Mode() != 0o754 {
			t.Errorf("mode is %v", info.Mode())
		}
		noneStaged(t, r)
	}
}

// noneStaged checks that no incomplete file is left on the node. It waits, because the server cleans up after a cut
// session only when it notices the cut.
func noneStaged(t *testing.T, r *Remote) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var left []string
		filepath.WalkDir(r.Dir, func(name string, d fs.DirEntry, err error) error {
			if strings.HasPrefix(filepath.Base(name), stagePrefix) {
				left = append(left, name)
			}
			return nil
		})
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left on the node: %q", left)
		}
	}
}

func TestUploadErrors(t *testing.T) {
	r := node(t)
	dir := t.TempDir()
	local := filepath.Join(dir, "f")
	write(t, local, "x")
	must(t, os.Mkdir(filepath.Join(r.Dir, "folder"), 0o755))
	write(t, filepath.Join(r.Dir, "file"), "")
	for _, tt := range []struct{ name, local, remote, want string }{
		{"nothing here", filepath.Join(dir, "no"), "x", "no such file"},
		{"no place", local, "", "empty"},
		{"root", local, "/", "root folder"},
		{"NUL", local, "a\x00b", "NUL"},
		{"file over folder", local, "folder", "it is a folder there"},
		{"file below a file", local, "file/x", "file"},
		{"folder over file", dir, "file", "file"},
		{"a device", os.DevNull, "null", "neither a file nor a folder"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := r.Upload(t.Context(), tt.local, tt.remote, Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	noneStaged(t, r)
}

func TestUploadWithoutPermission(t *testing.T) {
	r := node(t)
	local := filepath.Join(t.TempDir(), "f")
	write(t, local, "x")
	for _, up := range []string{local, filepath.Dir(local)} {
		if err := r.Upload(t.Context(), up, "/proc/version/f", Options{}); err == nil {
			t.Error("no error")
		}
		err := r.Upload(t.Context(), up, "/sys/kernel/f", Options{})
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("error %v, want fs.ErrPermission", err)
		}
	}
}

func TestUploadToFullDisk(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		small := filepath.Join(r.Dir, "small")
		must(t, os.Mkdir(small, 0o755))
		disktest.Mount(t, small, 1<<20)
		local := t.TempDir()
		content := make([]byte, 4<<20)
		must(t, os.WriteFile(filepath.Join(local, "big"), content, 0o644))
		bulk := filepath.Join(t.TempDir(), "bulk")
		must(t, os.WriteFile(bulk, nil, 0o644))
		must(t, os.Truncate(bulk, bulkSize+1))
		for _, up := range []string{bulk, filepath.Join(local, "big"), local} {
			err := r.Upload(t.Context(), up, "small/x", Options{})
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "small/x") || !strings.Contains(err.Error(), "no space left") {
				t.Errorf("error %v, want one that says that the disk is full", err)
			}
			noneStaged(t, r)
		}
	})
}

func TestUploadSurvivesCuts(t *testing.T) {
	for _, kind := range []string{"file", "bulk", "tree"} {
		t.Run(kind, func(t *testing.T) {
			r, link := linked(t)
			local := filepath.Join(t.TempDir(), "up")
			content := make([]byte, 8<<20)
			if kind == "bulk" {
				content = make([]byte, bulkSize+4<<20)
			}
			rand.NewChaCha8([32]byte{2}).Read(content)
			if kind == "tree" {
				must(t, os.Mkdir(local, 0o755))
				for _, n := range []string{"a", "b"} {
					must(t, os.WriteFile(filepath.Join(local, n), content, 0o644))
				}
			} else {
				must(t, os.WriteFile(local, content, 0o644))
			}
			link.CutAfter(3 << 20)
			must(t, r.Upload(t.Context(), local, "up", Options{}))
			if link.Dials() < 2 {
				t.Error("nothing was cut")
			}
			at := filepath.Join(r.Dir, "up")
			if kind == "tree" {
				at = filepath.Join(at, "b")
			}
			if got, err := os.ReadFile(at); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes arrived, %v", len(got), err)
			}
			noneStaged(t, r)
		})
	}
}

func TestUploadCancelled(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		local := t.TempDir()
		must(t, os.WriteFile(filepath.Join(local, "f"), make([]byte, 40<<20), 0o644))
		for _, up := range []string{local, filepath.Join(local, "f")} {
			ctx, cancel := context.WithCancel(t.Context())
			err := r.Upload(ctx, up, "x", Options{Progress: func(n, _ int64) {
				if n > 1<<20 {
					cancel()
				}
			}})
			cancel()
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			noneStaged(t, r)
			if exists(filepath.Join(r.Dir, "x/f")) || up != local && exists(filepath.Join(r.Dir, "x")) && !isDir(filepath.Join(r.Dir, "x")) {
				t.Error("an abandoned upload left a file")
			}
			os.RemoveAll(filepath.Join(r.Dir, "x"))
		}
	})
}

func isDir(name string) bool { info, err := os.Stat(name); return err == nil && info.IsDir() }
