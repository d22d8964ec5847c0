//go:build unix

package crossbuild

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/strangertest"
)

// A folder that another user can write to is not used for programs that are shipped to nodes.
func TestStrangersStore(t *testing.T) {
	shared, mine := strangertest.Shared(t), t.TempDir()
	strangertest.Run(t, `cd "$1" && mkdir -p theirs/gputrain/workers && chmod -R 777 theirs && ln -s "$2" link`, shared, mine)
	for path, says := range map[string]string{
		"theirs/gputrain/workers": "another user's", "theirs/new/workers": "another user's", "link": "link", "link/workers": "another user's link",
	} {
		if dir, err := (store{filepath.Join(shared, path)}).scratch(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("builds in %s: %v", dir, err)
		}
	}
	if entries, err := os.ReadDir(mine); err != nil || len(entries) > 0 {
		t.Errorf("files were made through a link: %v, %v", entries, err)
	}
	s := store{filepath.Join(shared, "mine", "workers")}
	dir, err := s.scratch()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "worker"), []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if open := strangertest.Opens(t, filepath.Join(shared, "mine")); len(open) > 0 {
		t.Errorf("another user can open %v", open)
	}
	os.Chmod(s.dir, 0o770)
	if _, err := s.scratch(); err == nil || !strings.Contains(err.Error(), "others can write") {
		t.Errorf("in a folder that a group can write to: %v", err)
	}
}

// A build starts from an earlier one only if that is this user's own file.
func TestSeedIsNoLink(t *testing.T) {
	s, elsewhere := store{t.TempDir()}, filepath.Join(t.TempDir(), "file")
	sum := sha256.Sum256([]byte("secret"))
	name := filepath.Join(s.dir, "key-"+hex.EncodeToString(sum[:]))
	to := filepath.Join(t.TempDir(), "worker")
	os.WriteFile(elsewhere, []byte("secret"), 0o600)
	if err := os.Symlink(elsewhere, name); err != nil {
		t.Fatal(err)
	}
	if s.seed("key", to); exists(to) {
		t.Error("seed followed a link")
	}
	os.Remove(name)
	os.WriteFile(name, []byte("secret"), 0o700)
	if s.seed("key", to); !exists(to) {
		t.Error("seed did not copy the earlier build")
	}
	if os.Geteuid() == 0 {
		os.Remove(to)
		os.Chown(name, strangertest.UID, strangertest.UID)
		if s.seed("key", to); exists(to) {
			t.Error("seed copied another user's file")
		}
	}
}
