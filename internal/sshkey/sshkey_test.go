package sshkey

import (
	"crypto/ed25519"
	"strings"
	"testing"

	xssh "golang.org/x/crypto/ssh"
)

// newKey returns a public key in one line, and its fingerprint as x/crypto/ssh computes it.
func newKey(t *testing.T) (line, fingerprint string) {
	t.Helper()
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := xssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(xssh.MarshalAuthorizedKey(key))), xssh.FingerprintSHA256(key)
}

func TestFingerprint(t *testing.T) {
	line, want := newKey(t)
	for _, s := range []string{line, line + " root@gpu1", want} {
		if got, err := Fingerprint(s); got != want || err != nil {
			t.Errorf("Fingerprint(%q) = %q, %v; want %q", s, got, err, want)
		}
	}
}

func TestDamagedKeys(t *testing.T) {
	line, fingerprint := newKey(t)
	body := strings.Fields(line)[1]
	for s, says := range map[string]string{
		"":                                    "neither",
		"ssh-ed25519":                         "neither",
		line + "\n" + line:                    "neither",
		"ssh-rsa " + body:                     "whole public key",
		"ssh-ed25519 " + body[:8]:             "whole public key",
		"ssh-ed25519 " + body + "AAAA":        "whole public key",
		"ssh-ed25519 ???":                     "whole public key",
		"-----BEGIN OPENSSH PRIVATE KEY-----": "whole public key",
		fingerprint + "=":                     "43 characters",
		"SHA256:abc":                          "43 characters",
		"MD5:aa:bb":                           "MD5",
	} {
		if got, err := Fingerprint(s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Fingerprint(%q) = %q, %v; want an error with %q", s, got, err, says)
		}
	}
	if err := CheckPublic(line); err != nil {
		t.Error(err)
	}
	if CheckPublic(fingerprint) == nil {
		t.Error("CheckPublic accepts a fingerprint")
	}
}

func FuzzFingerprint(f *testing.F) {
	for _, s := range []string{"SHA256:", "MD5:00", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA==", "a b", "ssh-rsa /////w=="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Fingerprint(s)
		if err != nil {
			return
		}
		if again, err := Fingerprint(got); again != got || err != nil {
			t.Errorf("Fingerprint(%q) = %q, whose own fingerprint is %q, %v", s, got, again, err)
		}
	})
}

func FuzzCutString(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 'a', 'b'})
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, rest, ok := CutString(b)
		if ok && 4+len(s)+len(rest) != len(b) {
			t.Errorf("CutString(%q) = %q, %q", b, s, rest)
		}
	})
}
