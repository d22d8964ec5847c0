package ssh

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// connectWith connects with the result of HostKeys for its arguments.
func connectWith(t *testing.T, s *opensshtest.Server, want []string, file string, pin *Pin) error {
	t.Helper()
	cfg := configFor(t, s, s.Addr)
	var err error
	if cfg.HostKey, cfg.HostKeyAlgorithms, err = HostKeys(want, file, s.Addr, pin); err != nil {
		return err
	}
	c := New(cfg)
	defer c.Close()
	return c.Connect(inTime(t))
}

func newKey(t *testing.T) KeyPair {
	t.Helper()
	k, err := NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func authorized(k xssh.PublicKey) string { return string(xssh.MarshalAuthorizedKey(k)) }

func TestPinnedKeys(t *testing.T) {
	s := opensshtest.Start(t)
	other := newKey(t)
	for _, tt := range []struct {
		name string
		want []string
		ok   bool
	}{
		{"its key", []string{authorized(s.HostKey)}, true},
		{"its fingerprint", []string{Fingerprint(s.HostKey)}, true},
		{"one of several", []string{other.Public, Fingerprint(other.Signer.PublicKey()), Fingerprint(s.HostKey)}, true},
		{"another key", []string{other.Public}, false},
		{"another fingerprint", []string{Fingerprint(other.Signer.PublicKey())}, false},
	} {
		err := connectWith(t, s, tt.want, "", nil)
		if tt.ok != (err == nil) {
			t.Errorf("%s: %v", tt.name, err)
		}
		var mismatch *HostKeyError
		if !tt.ok && (!errors.As(err, &mismatch) || mismatch.Got != Fingerprint(s.HostKey) || mismatch.Want[0] != Fingerprint(other.Signer.PublicKey())) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestPinnedFingerprintOfAnotherKind pins a key that the server would not offer by default, by a fingerprint, which
// does not reveal the key's kind.
func TestPinnedFingerprintOfAnotherKind(t *testing.T) {
	dir := t.TempDir()
	var lines, fingerprints []string
	for _, kind := range []string{"rsa", "ecdsa"} {
		path := filepath.Join(dir, kind)
		if out, err := exec.Command(opensshtest.Client(t, "ssh-keygen"), "-q", "-t", kind, "-N", "", "-f", path).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v %s", err, out)
		}
		lines = append(lines, "HostKey "+path)
		public, err := os.ReadFile(path + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		_, fingerprint, err := parseWant(strings.Join(strings.Fields(string(public))[:2], " "))
		if err != nil {
			t.Fatal(err)
		}
		fingerprints = append(fingerprints, fingerprint)
	}
	s := opensshtest.Start(t, opensshtest.Config(lines...))
	for _, f := range append(fingerprints, Fingerprint(s.HostKey)) {
		if err := connectWith(t, s, []string{f}, "", nil); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		file := filepath.Join(t.TempDir(), "known_hosts")
		host := knownhosts.Line([]string{s.Addr}, s.HostKey)
		if err := os.WriteFile(file, []byte(host+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := connectWith(t, s, nil, file, nil); err != nil {
			t.Errorf("known by its Ed25519 key alone: %v", err)
		}
	}
	none := Fingerprint(newKey(t).Signer.PublicKey())
	if err := connectWith(t, s, []string{none}, "", nil); !errors.Is(err, ErrHostKey) {
		t.Errorf("a fingerprint of none of its keys: %v", err)
	}
}

func TestFirstContactHolds(t *testing.T) {
	s := opensshtest.Start(t)
	pin := new(Pin)
	if pin.Key() != nil {
		t.Error("a new pin has a key")
	}
	for range 2 {
		if err := connectWith(t, s, nil, "", pin); err != nil {
			t.Fatal(err)
		}
	}
	old := Fingerprint(s.HostKey)
	if got := Fingerprint(pin.Key()); got != old {
		t.Fatalf("pinned %s, not %s", got, old)
	}
	s.Kill()
	s.NewHostKey()
	s.Resume()
	err := connectWith(t, s, nil, "", pin)
	if !errors.Is(err, ErrHostKey) || !strings.Contains(err.Error(), old) || !strings.Contains(err.Error(), Fingerprint(s.HostKey)) {
		t.Fatalf("got %v", err)
	}
	if err := connectWith(t, s, nil, "", nil); err == nil {
		t.Error("connected without anything to check against")
	}
}

func TestKnownHosts(t *testing.T) {
	s := opensshtest.Start(t)
	other := newKey(t)
	host, port, _ := net.SplitHostPort(s.Addr)
	key := strings.TrimSpace(authorized(s.HostKey))
	name := "[" + host + "]:" + port
	for _, tt := range []struct {
		name, text string
		says       string // "" if it connects
	}{
		{"by name", name + " " + key, ""},
		{"hashed", knownhosts.HashHostname(knownhosts.Normalize(s.Addr)) + " " + key, ""},
		{"among others", "# mine\n\nexample.com " + other.Public + "\n" + name + " " + key + " comment", ""},
		{"by pattern", "[127.0.0.*]:" + port + " " + key, ""},
		{"unknown", "example.com " + key, "ssh-keyscan -p " + port + " " + host},
		{"another port", "[" + host + "]:1 " + key, "ssh-keyscan"},
		{"empty", "", "ssh-keyscan"},
		{"changed", name + " " + other.Public, Fingerprint(other.Signer.PublicKey())},
		{"revoked", name + " " + key + "\n@revoked * " + key, "revoked"},
		{"an authority, but no certificate", "@cert-authority " + name + " " + other.Public, "no key of that kind"},
		{"an authority and a key", "@cert-authority " + name + " " + other.Public + "\n" + name + " " + key, ""},
		{"nonsense", name + " nonsense", "known_hosts"},
	} {
		file := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(file, []byte(tt.text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := connectWith(t, s, nil, file, nil)
		switch {
		case tt.says == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s: %v, which does not contain %q", tt.name, err, tt.says)
		}
		if tt.says != "" && tt.name != "nonsense" && !errors.Is(err, ErrHostKey) {
			t.Errorf("%s: %v is no ErrHostKey", tt.name, err)
		}
	}
}

func TestKnownHostsOfACertifiedServer(t *testing.T) {
	dir := t.TempDir()
	authority := newKey(t)
	caFile := filepath.Join(dir, "ca")
	if err := os.WriteFile(caFile, authority.Private, 0o600); err != nil {
		t.Fatal(err)
	}
	hostKey := newKey(t)
	keyFile := filepath.Join(dir, "certified")
	if err := errors.Join(os.WriteFile(keyFile, hostKey.Private, 0o600), os.WriteFile(keyFile+".pub", []byte(hostKey.Public), 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(opensshtest.Client(t, "ssh-keygen"), "-q", "-s", caFile, "-I", "host", "-h", "-n", "127.0.0.1", keyFile+".pub").CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v %s", err, out)
	}
	s := opensshtest.Start(t, opensshtest.Config("HostKey "+keyFile, "HostCertificate "+keyFile+"-cert.pub"))
	_, port, _ := net.SplitHostPort(s.Addr)
	file := filepath.Join(dir, "known_hosts")
	if err := os.WriteFile(file, fmt.Appendf(nil, "@cert-authority [127.0.0.1]:%s %s\n", port, authority.Public), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := connectWith(t, s, nil, file, nil); err != nil {
		t.Error(err)
	}
	if err := connectWith(t, s, []string{Fingerprint(hostKey.Signer.PublicKey())}, "", nil); err != nil {
		t.Errorf("pinned: %v", err)
	}
}

func TestKnownHostsMistakes(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	_, _, err := HostKeys(nil, "~/known_hosts", "127.0.0.1:22", nil)
	if err == nil || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), home) {
		t.Errorf("no such file: %v", err)
	}
	if err := os.WriteFile(filepath.Join(home, "known_hosts"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := HostKeys(nil, "~/known_hosts", "", nil); err == nil {
		t.Error("a server without an address was found in known_hosts")
	}
	if _, _, err := HostKeys(nil, "~/known_hosts", "example.com", nil); err != nil {
		t.Error(err)
	}
}

func TestWantMistakes(t *testing.T) {
	key := newKey(t).Public
	for _, want := range []string{
		"", "nonsense", "SHA256:", "SHA256:short", "MD5:00:11", "ssh-ed25519 AAAA",
		key + "\n" + key, `command="x" ` + key, "SHA256:" + strings.Repeat("!", 43),
	} {
		if _, _, err := HostKeys([]string{want}, "", "127.0.0.1:22", nil); err == nil {
			t.Errorf("HostKeys accepts %q", want)
		}
	}
}

func FuzzParseWant(f *testing.F) {
	k, err := NewKeyPair()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{
		"", "SHA256:", k.Public, k.Public + " comment\n", Fingerprint(k.Signer.PublicKey()), Fingerprint(k.Signer.PublicKey()) + "=",
		"ssh-rsa AAAA", `from="*" ` + k.Public, "SHA256:" + strings.Repeat("A", 43),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, fingerprint, err := parseWant(s)
		if err != nil {
			return
		}
		if _, again, err := parseWant(fingerprint); err != nil || again != fingerprint {
			t.Fatalf("%q has fingerprint %q, which reads as %q, %v", s, fingerprint, again, err)
		}
		if key == nil {
			return
		}
		if again, _, err := parseWant(authorized(key)); err != nil || !isSameKey(again, key) {
			t.Fatalf("the result for %q cannot be parsed again: %v", s, err)
		}
	})
}
