package ssh

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

func TestNewKeyPair(t *testing.T) {
	k := newKey(t)
	public, _, _, _, err := xssh.ParseAuthorizedKey([]byte(k.Public))
	if err != nil || !isSameKey(public, k.Signer.PublicKey()) {
		t.Errorf("public half: %v", err)
	}
	private, err := xssh.ParsePrivateKey(k.Private)
	if err != nil || !isSameKey(private.PublicKey(), public) {
		t.Errorf("private half: %v", err)
	}
}

func TestLoadKey(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	k := newKey(t)
	locked := filepath.Join(home, "locked")
	for name, text := range map[string][]byte{"good": k.Private, "good.pub": []byte(k.Public), "nonsense": []byte("nonsense")} {
		if err := os.WriteFile(filepath.Join(home, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(opensshtest.Client(t, "ssh-keygen"), "-q", "-t", "ed25519", "-N", "secret words", "-f", locked).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v %s", err, out)
	}
	signer, err := LoadKey("~/good")
	if err != nil || !isSameKey(signer.PublicKey(), k.Signer.PublicKey()) {
		t.Errorf("good: %v", err)
	}
	for path, says := range map[string]string{
		"~/locked": "ssh-add", "~/good.pub": "public half", "~/nonsense": "not a private key", "~/missing": "missing",
	} {
		if _, err := LoadKey(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// startAgent runs an SSH agent until the test ends.
func startAgent(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // short, as a socket's path must be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "socket")
	cmd := exec.Command(opensshtest.Client(t, "ssh-agent"), "-D", "-a", socket)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it prints the socket's name once that exists
		t.Fatal(err)
	}
	t.Setenv("SSH_AUTH_SOCK", socket)
}

func TestAgent(t *testing.T) {
	startAgent(t)
	if _, err := AgentSigners(); err == nil || !strings.Contains(err.Error(), "no keys") {
		t.Errorf("an empty agent: %v", err)
	}
	dir := t.TempDir()
	var keys string
	for _, kind := range []string{"rsa", "ecdsa", "ed25519"} {
		path := filepath.Join(dir, kind)
		if out, err := exec.Command(opensshtest.Client(t, "ssh-keygen"), "-q", "-t", kind, "-N", "", "-f", path).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v %s", err, out)
		}
		if out, err := exec.Command(opensshtest.Client(t, "ssh-add"), "-q", path).CombinedOutput(); err != nil {
			t.Fatalf("ssh-add: %v %s", err, out)
		}
		public, err := os.ReadFile(path + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		keys += string(public)
	}
	s := opensshtest.Start(t)
	if err := os.WriteFile(filepath.Join(s.Dir, "authorized_keys"), []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	signers, err := AgentSigners()
	if err != nil || len(signers) != 3 {
		t.Fatalf("%d keys, %v", len(signers), err)
	}
	for _, signer := range signers { // each kind of key by itself
		cfg := configFor(t, s, s.Addr)
		cfg.Auth = []xssh.AuthMethod{xssh.PublicKeys(newKey(t).Signer, signer)}
		connect(t, cfg)
	}
}

// Whatever ssh(1) logs in with, logs in: an agent without keys, or one that has ended, or with many others; a key with a
// passphrase beside another; a certificate.
func TestUserKeys(t *testing.T) {
	dir := t.TempDir()
	made := 0
	key := func(passphrase string) string {
		made++
		path := filepath.Join(dir, fmt.Sprint("key", made))
		if out, err := exec.Command(opensshtest.Client(t, "ssh-keygen"), "-q", "-t", "ed25519", "-N", passphrase, "-f", path).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v %s", err, out)
		}
		return path
	}
	read := func(path string) []byte {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	add := func(paths ...string) {
		if out, err := exec.Command(opensshtest.Client(t, "ssh-add"), append([]string{"-q"}, paths...)...).CombinedOutput(); err != nil {
			t.Fatalf("ssh-add: %v %s", err, out)
		}
	}
	write := func(path string, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mine, other, locked, authority := key(""), key(""), key("open sesame"), key("")
	s := opensshtest.Start(t, opensshtest.Config("TrustedUserCAKeys "+authority+".pub", "MaxAuthTries 6"))
	write(filepath.Join(s.Dir, "authorized_keys"), read(mine+".pub"))
	certified := key("")
	if out, err := exec.Command(opensshtest.Client(t, "ssh-keygen"), "-q", "-s", authority, "-I", "me", "-n", s.User, certified+".pub").CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v %s", err, out)
	}
	dead := func() { t.Setenv("SSH_AUTH_SOCK", filepath.Join(dir, "gone")) }
	many := func() {
		startAgent(t)
		for range 8 {
			add(key(""))
		}
	}
	public := filepath.Join(dir, "half.pub")
	write(public, read(mine+".pub"))
	for _, tt := range []struct {
		name  string
		agent func()
		files []string
		with  bool // the agent's keys
		fails string
	}{
		{"a file", func() { t.Setenv("SSH_AUTH_SOCK", "") }, []string{mine}, true, ""},
		{"an agent without keys", func() { startAgent(t) }, []string{mine}, true, ""},
		{"an agent that has ended", dead, []string{mine}, true, ""},
		{"an agent with eight others", many, []string{mine}, true, ""},
		{"the ninth of an agent", func() { many(); add(mine) }, nil, true, ""},
		{"after a key with a passphrase", dead, []string{locked, mine}, true, ""},
		{"after a file that is no key", dead, []string{s.Dir, filepath.Join(dir, "none"), mine}, false, ""},
		{"a certificate", dead, []string{certified}, false, ""},
		{"a certificate, with an agent", func() { startAgent(t); add(certified) }, []string{certified}, false, ""},
		{"the public half of the agent's", func() { many(); add(mine) }, []string{public}, false, ""},
		{"the public half, without .pub", func() { startAgent(t); add(mine) }, []string{strings.TrimSuffix(public, ".pub")}, false, ""},
		{"the wrong one", func() { startAgent(t); add(mine) }, []string{other}, false, "login refused"},
		{"only a locked one", dead, []string{locked}, true, "passphrase"},
		{"nothing", dead, nil, true, "does not answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.agent()
			keys, err := UserKeys(tt.files, tt.with)
			if err == nil {
				cfg := configFor(t, s, s.Addr)
				cfg.Auth, cfg.Keys = nil, keys
				c := New(cfg)
				err = c.Connect(t.Context())
				c.Close()
			}
			if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%v; want %q", err, tt.fails)
			}
		})
	}
}

func TestNoAgent(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	if _, err := AgentSigners(); err == nil || !strings.Contains(err.Error(), "SSH_AUTH_SOCK is not set") {
		t.Errorf("got %v", err)
	}
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(t.TempDir(), "gone"))
	if _, err := AgentSigners(); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("got %v", err)
	}
}

// What is accepted is one key, and is accepted again in the form that is returned.
func FuzzAuthorizedKey(f *testing.F) {
	pair, err := NewKeyPair()
	if err != nil {
		f.Fatal(err)
	}
	for _, line := range []string{pair.Public, pair.Public + " me@laptop", "restrict " + pair.Public, "# " + pair.Public, pair.Public + "\n" + pair.Public, string(pair.Private), ""} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		key, err := AuthorizedKey(line)
		if err != nil {
			return
		}
		if again, err := AuthorizedKey(key); err != nil || again != key || len(strings.Fields(key)) != 2 || strings.ContainsAny(key, "\n\r\x00") {
			t.Errorf("%q is %q, and that %q, %v", line, key, again, err)
		}
	})
}
