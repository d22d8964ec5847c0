//go:build unix

package private

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/strangertest"
)

// place makes a folder with a file, which belong to this user alone.
func place(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "mine", "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "mine", "sub", "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSealed(t *testing.T) {
	dir := t.TempDir()
	file := place(t, dir)
	mine := filepath.Join(dir, "mine")
	for from, to := range map[string]string{"abs": file, "rel": "mine/sub/../sub/file", "mine/up": "../rel", "loop": "loop", "folder": "mine/sub/"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{file, mine, filepath.Join(dir, "abs"), filepath.Join(dir, "rel"), filepath.Join(mine, "up"), filepath.Join(dir, "folder", "file"), "/"} {
		if err := new(Sealed).Check(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := new(Sealed).Check(filepath.Join(dir, "loop")); err == nil || !strings.Contains(err.Error(), "too many links") {
		t.Errorf("a loop: %v", err)
	}
	if err := new(Sealed).Check(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
	for path, mode := range map[string]os.FileMode{file: 0o646, mine: 0o777, filepath.Join(mine, "sub"): 0o757} {
		was, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		os.Chmod(path, mode)
		for _, name := range []string{file, filepath.Join(mine, "up"), filepath.Join(dir, "folder", "file")} {
			if err := new(Sealed).Check(name); err == nil || !strings.Contains(err.Error(), path+" can be written to by other users") {
				t.Errorf("%s: all users can write to %s, and Check returns %v", name, path, err)
			}
		}
		os.Chmod(path, was.Mode())
	}
	// A sticky bit on a folder protects its entries, not the folder itself.
	os.Chmod(mine, 0o777|os.ModeSticky)
	if err := new(Sealed).Check(file); err != nil {
		t.Errorf("below a sticky folder: %v", err)
	}
	if err := new(Sealed).Check(mine); err == nil {
		t.Error("Check accepts a sticky folder that is writable to all")
	}
}

// Another user makes links, folders and files in a shared folder, and changes what the links lead
// to.
func TestSealedFromAStranger(t *testing.T) {
	shared := strangertest.Shared(t)
	file := place(t, shared)
	strangertest.Run(t, `cd "$1" && ln -s "$2" link && mkdir dir && ln -s "$2" dir/link && echo >own`, shared, file)
	via := filepath.Join(shared, "via") // ours, but leads through another user's link
	if err := os.Symlink("dir/link", via); err != nil {
		t.Fatal(err)
	}
	if err := new(Sealed).Check(file); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"link", "dir/link", "own", "dir", "via"} {
		if err := new(Sealed).Check(filepath.Join(shared, name)); err == nil || !strings.Contains(err.Error(), "another user's") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLoneMember(t *testing.T) {
	const users = "root:x:0:0:root:/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\nyou:x:1001:1001::/home/you:/bin/sh\n"
	for groups, want := range map[string]bool{
		"me:x:1000:\n": true, "me:x:1000:me\n": true, "me:x:1000:me,you\n": false, "me:x:1000:you": false, "other:x:7:\n": false, "": false,
		"me:x:1000:\nalias:x:1000:you\n": false,
	} {
		if got := loneMember(groups, users, "1000", "1000"); got != want {
			t.Errorf("loneMember with the groups %q is %v", groups, got)
		}
	}
	if loneMember("staff:x:1001:\n", users, "1001", "1000") {
		t.Error("another user's own group counts as this user's")
	}
}
