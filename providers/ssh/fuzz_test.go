package ssh

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

// A key file of any content is refused with a kind, or may be a key.
func FuzzKeyFile(f *testing.F) {
	for _, s := range []string{
		"", "ssh-ed25519 AAAA", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU=\n-----END OPENSSH PRIVATE KEY-----\n",
		"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA/////w==\n-----END OPENSSH PRIVATE KEY-----\n",
		"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		err := checkKeyFile(file, false)
		if e, ok := errors.AsType[*fault](err); err != nil && (!ok || e.kind != driver.ErrAuth || e.hint == "") {
			t.Errorf("got %v", err)
		}
	})
}
