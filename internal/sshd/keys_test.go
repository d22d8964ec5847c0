package sshd

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"testing"

	xssh "golang.org/x/crypto/ssh"
)

// A task can put anything in place of its home's authorized keys. What is too long is not read.
func TestAuthorizedKeysOfHoles(t *testing.T) {
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := xssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, ".ssh", "authorized_keys")
	if err := os.WriteFile(file, xssh.MarshalAuthorizedKey(key), 0o600); err != nil {
		t.Fatal(err)
	}
	if keys := installed(home); len(keys) != 1 {
		t.Fatalf("%d keys", len(keys))
	}
	if err := os.Truncate(file, 256<<20); err != nil {
		t.Fatal(err)
	}
	if keys := installed(home); len(keys) != 0 {
		t.Error("256 MiB were read")
	}
}
