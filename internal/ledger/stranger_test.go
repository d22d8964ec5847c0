//go:build unix

package ledger

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/strangertest"
)

// A state directory that another user has made, or can replace, is refused before anything is made
// in it. This user's own is closed to other users.
func TestStrangersStateDirectory(t *testing.T) {
	shared, mine := strangertest.Shared(t), t.TempDir()
	strangertest.Run(t, `cd "$1" && mkdir -m 777 theirs open && ln -s "$2" link && mkdir -m 777 open/state`, shared, mine)
	for _, path := range []string{"theirs", "theirs/state", "link", "link/state", "open/state"} {
		path = filepath.Join(shared, path)
		if d, err := OpenDir(path); err == nil || !strings.Contains(err.Error(), "another user's") {
			t.Errorf("%s: %v, %v", path, d, err)
		}
	}
	for _, dir := range []string{mine, filepath.Join(shared, "theirs"), filepath.Join(shared, "open", "state")} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("OpenDir made files in %s: %v, %v", dir, entries, err)
		}
	}

	state := filepath.Join(shared, "state")
	d, err := OpenDir(state)
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.Create(Header{Pool: "p-1"}, []byte("the key"), Row{Name: "shared", Kind: "shared"})
	if err != nil {
		t.Fatal(err)
	}
	if open := strangertest.Opens(t, state); len(open) > 0 {
		t.Errorf("another user can open %v", open)
	}
	if err := l.Close(true); err != nil {
		t.Error(err)
	}
}

// The key is read only from this user's own file, not through a link.
func TestKeyIsNoLink(t *testing.T) {
	d, err := OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.Create(Header{Pool: "p-1"}, []byte("the key"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(true)
	if key, err := l.Key(); string(key) != "the key" || err != nil {
		t.Errorf("%q, %v", key, err)
	}
	other := filepath.Join(t.TempDir(), "other")
	os.WriteFile(other, []byte("secret"), 0o600)
	os.Remove(d.file("p-1", ".key"))
	os.Symlink(other, d.file("p-1", ".key"))
	if key, err := l.Key(); err == nil {
		t.Errorf("Key read %q through a link", key)
	}
}
