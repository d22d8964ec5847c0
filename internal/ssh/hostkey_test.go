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
		{"nonsense", name + " nonsense", "known_hosts:1"},

		// As ssh(1) has names.
		{"a pattern of everything", "* " + key, ""},
		{"a pattern of every port", "[127.0.0.1]:* " + key, ""},
		{"a name without its port", host + " " + key, ""},
		{"a pattern without a port", "127.* " + key, ""},
		{"a name without its port, of another key", host + " " + other.Public, Fingerprint(other.Signer.PublicKey())},
		{"the port's own line is preferred", host + " " + other.Public + "\n" + name + " " + key, ""},
		{"another port's pattern", "[127.0.0.1]:1* " + other.Public + "\n[127.0.0.1]:" + port + " " + key, ""},
		{"not this one", "*,![127.*,!127.* " + key, "ssh-keyscan"},
		{"an empty name", ",," + name + ", " + key, ""},

		// Odd lines take nothing from the others.
		{"a byte order mark", "\ufeff" + name + " " + key, ""},
		{"a cut key", "old.lab " + key[:len(key)-10] + "\n" + name + " " + key, ""},
		{"a key of SSH 1", "old.lab 1024 35 1490918203981029380192830192\n" + name + " " + key, ""},
		{"an unknown kind", "old.lab ssh-xmss@openssh.com AAAAFHNzaC14bXNzQG9wZW5zc2guY29tAAAAAQE=\n" + name + " " + key, ""},
		{"a DSA key", "old.lab ssh-dss AAAAB3NzaC1kc3MAAAAB\n" + name + " " + key, ""},
		{"an unknown marker", "@frob old.lab " + key + "\n" + name + " " + key, ""},
		{"a long line", "old.lab " + strings.Repeat("A", 1<<17) + "\n" + name + " " + key, ""},
		{"Windows", "# mine\r\n" + name + " " + key + "\r\n", ""},
		{"a broken hash", "|1|x|y " + key + "\n" + name + " " + key, ""},
		{"revoked, beside an odd line", "old.lab ssh-rsa AAAA\n" + name + " " + key + "\n@revoked * " + key, "revoked"},
		{"revoked, for another name", name + " " + key + "\n@revoked old.lab " + key, "revoked"},
		{"odd lines are told", "old.lab ssh-rsa AAAA\nold.lab 1024 35 149\nexample.com " + key, "known_hosts:1, "},
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
		if tt.says != "" && !errors.Is(err, ErrHostKey) {
			t.Errorf("%s: %v is no ErrHostKey", tt.name, err)
		}
	}
}

// Names are compared in any case, as ssh(1) does, and ports apart.
func TestKnownHostsNames(t *testing.T) {
	key := newKey(t)
	for _, tt := range []struct {
		names, addr string
		ok          bool
	}{
		{"GPU1.Lab", "gpu1.lab:22", true},
		{"gpu1.lab", "GPU1.LAB:22", true},
		{"*.LAB", "gpu1.lab:2222", true},
		{"[GPU1.lab]:2222", "gpu1.lab:2222", true},
		{"[gpu1.lab]:22", "gpu1.lab:22", true},
		{"[gpu1.lab]:2222", "gpu1.lab:22", false},
		{"gpu?.lab,!gpu2.lab", "gpu1.lab:22", true},
		{"gpu?.lab,!gpu2.lab", "gpu2.lab:22", false},
		{"gpu?.lab,!GPU2.lab", "gpu2.lab:2222", false},
		{"*", "gpu1.lab:2222", true},
		{"2001:db8::1", "[2001:db8::1]:22", true},
		{"2001:DB8::1", "[2001:db8::1]:2222", true},
		{"[2001:db8::1]:2222", "[2001:db8::1]:2222", true},
		{knownhosts.HashHostname("gpu1.lab"), "GPU1.lab:22", true},
		{knownhosts.HashHostname("gpu1.lab"), "gpu1.lab:2222", true},
		{knownhosts.HashHostname("[gpu1.lab]:2222"), "gpu1.lab:22", false},
		{"a*b*c", "a-b-b-c:22", true},
		{"a*b*c", "a-b-b-c-d:22", false},
		{strings.Repeat("a*", 200) + "b", strings.Repeat("a", 5000) + ":22", false},
	} {
		file := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(file, []byte(tt.names+" "+key.Public+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		check, _, err := HostKeys(nil, file, tt.addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := check("", address(tt.addr), key.Signer.PublicKey()); (err == nil) != tt.ok {
			t.Errorf("%s for %s: %v", tt.names, tt.addr, err)
		}
	}
}

// The user's own file has known_hosts2 beside it, and a file of another name has not.
func TestKnownHostsFiles(t *testing.T) {
	home, key := t.TempDir(), newKey(t)
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	dir := filepath.Join(home, ".ssh")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "known_hosts"), nil, 0o600),
		os.WriteFile(filepath.Join(dir, "known_hosts2"), []byte("gpu1.lab "+key.Public+"\n"), 0o600), os.WriteFile(filepath.Join(dir, "other"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for file, ok := range map[string]bool{"~/.ssh/known_hosts": true, "~/.ssh/other": false} {
		check, _, err := HostKeys(nil, file, "gpu1.lab:22", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := check("", address("gpu1.lab:22"), key.Signer.PublicKey()); (err == nil) != ok {
			t.Errorf("%s: %v", file, err)
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
