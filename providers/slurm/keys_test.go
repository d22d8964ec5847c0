package slurm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/ssh"
)

// testKey makes a key, and writes it to a file. secret is a line of it.
func testKey(t testing.TB) (pair ssh.KeyPair, file, secret string) {
	t.Helper()
	pair, err := ssh.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, pair.Private, 0o600); err != nil {
		t.Fatal(err)
	}
	return pair, file, strings.Split(string(pair.Private), "\n")[4]
}
