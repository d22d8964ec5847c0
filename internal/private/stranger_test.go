//go:build unix

package private

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gputrain/gputrain/internal/test/strangertest"
)

// Nothing that another user makes in a shared folder is accepted as this user's.
func TestStrangersFolders(t *testing.T) {
	shared := strangertest.Shared(t)
	mine := t.TempDir()
	strangertest.Run(t, `cd "$1" && mkdir -m 700 a && mkdir -m 777 b && ln -s "$2" link && echo x >file && mkfifo pipe && mkdir -m 777 open && ln -s "$2" open/link`, shared, mine)
	for name, says := range map[string]string{"a": "another user's", "b": "another user's", "link": "link", "file": "not a folder", "pipe": "not a folder"} {
		path := filepath.Join(shared, name)
		if err := MakeDir(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("MakeDir with %s: %v", name, err)
		}
	}
	for name, says := range map[string]string{"a/x": "another user's", "link": "another user's link", "link/x": "another user's link", "open/link/x": "another user's link", "b/x/y": "another user's"} {
		if err := CheckPath(filepath.Join(shared, name)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("CheckPath with %s: %v", name, err)
		}
	}
	if _, err := ReadFile(filepath.Join(shared, "file"), 100); err == nil || !strings.Contains(err.Error(), "another user's") {
		t.Errorf("ReadFile of another user's file: %v", err)
	}
	if err := CheckPath(filepath.Join(shared, "mine")); err != nil {
		t.Errorf("below a folder with a sticky bit: %v", err)
	}
	os.Chmod(shared, 0o777)
	if err := CheckPath(filepath.Join(shared, "mine")); err == nil || !strings.Contains(err.Error(), "sticky") {
		t.Errorf("below a folder of all users: %v", err)
	}
}

// ReadFile does not block if a pipe takes a file's place.
func TestReadFileWaitsForNothing(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadFile(pipe, 100); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("%q, %v", got, err)
	}
}
