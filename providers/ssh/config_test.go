package ssh

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
	xssh "golang.org/x/crypto/ssh"
)

const fingerprint = "SHA256:jOzoyCtCFEPeHYjYxxSFFzvBt4yhpyTHtSmlQKkqrF8"

// home makes an empty home directory with a .ssh, and no agent.
func home(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("USERPROFILE", dir) // what Windows calls it
	t.Setenv("SSH_AUTH_SOCK", "")
	write(t, filepath.Join(dir, ".ssh", "known_hosts"), nil)
	return dir
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// keyPair returns a private key in PEM form, encrypted unless passphrase is empty, and its
// public half in authorized_keys form.
func keyPair(t *testing.T, passphrase string) (private []byte, public string) {
	t.Helper()
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var block *pem.Block
	if passphrase == "" {
		block, err = xssh.MarshalPrivateKey(priv, "")
	} else {
		block, err = xssh.MarshalPrivateKeyWithPassphrase(priv, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	sshPub, err := xssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block), string(xssh.MarshalAuthorizedKey(sshPub))
}

func endpoints(t *testing.T, c Config) []driver.Endpoint {
	t.Helper()
	d, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []driver.Endpoint
	for _, h := range d.(*sshDriver).hosts {
		out = append(out, h.endpoint)
	}
	return out
}

func TestEndpoint(t *testing.T) {
	dir := home(t)
	private, public := keyPair(t, "")
	lab := filepath.Join(dir, "keys", "lab")
	write(t, lab, private)
	me, err := currentUser()
	if err != nil {
		t.Fatal(err)
	}
	known := filepath.Join(dir, ".ssh", "known_hosts")

	for _, tt := range []struct {
		name string
		host Host
		env  map[string]string
		want driver.Endpoint
	}{
		{
			name: "pinned fingerprint, key file under home",
			host: Host{Addr: "gpu1.lab", User: "u", KeyFile: "~/keys/lab", HostKey: fingerprint},
			want: driver.Endpoint{Addr: "gpu1.lab:22", User: "u", KeyFile: lab, HostKeys: []string{fingerprint}},
		},
		{
			name: "pinned public key, with a comment",
			host: Host{Addr: "gpu1.lab:2222", User: "u", KeyFile: lab, HostKey: strings.TrimSpace(public) + " root@gpu1\n"},
			want: driver.Endpoint{Addr: "gpu1.lab:2222", User: "u", KeyFile: lab, HostKeys: []string{strings.TrimSpace(public) + " root@gpu1"}},
		},
		{
			name: "agent and known_hosts",
			host: Host{Addr: "gpu1.lab"},
			env:  map[string]string{"SSH_AUTH_SOCK": "/run/agent"},
			want: driver.Endpoint{Addr: "gpu1.lab:22", User: me, Agent: true, KnownHosts: known},
		},
		{
			name: "a pinned key needs no known_hosts",
			host: Host{Addr: "h", User: "u", KeyFile: lab, HostKey: fingerprint, KnownHosts: "/nowhere"},
			want: driver.Endpoint{Addr: "h:22", User: "u", KeyFile: lab, HostKeys: []string{fingerprint}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			if got := endpoints(t, Config{Hosts: []Host{tt.host}})[0]; !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// Without a KeyFile the keys are those that ssh(1) tries, without those that nobody can use.
func TestDefaultKeys(t *testing.T) {
	dir := home(t)
	private, public := keyPair(t, "")
	locked, _ := keyPair(t, "open sesame")
	c := Config{Hosts: []Host{{Addr: "h"}}}
	if _, err := c.Open(t.Context()); !errors.Is(err, driver.ErrAuth) {
		t.Errorf("no agent and no key: %v, want ErrAuth", err)
	}
	file := func(name string) string { return filepath.Join(dir, ".ssh", name) }
	write(t, file("id_rsa"), locked)
	if _, err := c.Open(t.Context()); !errors.Is(err, driver.ErrAuth) || !strings.Contains(err.Error(), "passphrase") {
		t.Errorf("only a locked key: %v", err)
	}
	var want []string
	for _, name := range []string{"id_ecdsa", "id_ed25519"} {
		write(t, file(name), private)
		want = append(want, file(name))
		if got := endpoints(t, c)[0]; got.KeyFile != "" || !got.Agent || !reflect.DeepEqual(got.KeyFiles, want) {
			t.Errorf("%+v, want %q", got, want)
		}
	}
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(dir, "agent")) // it may have the locked key
	if got := endpoints(t, c)[0]; !got.Agent || !reflect.DeepEqual(got.Identities(), append([]string{file("id_rsa")}, want...)) {
		t.Errorf("with an agent: %+v", got)
	}
	write(t, file("other.pub"), []byte(public))
	for _, name := range []string{"~/.ssh/id_rsa", "~/.ssh/other.pub", "~/.ssh/other"} {
		c.Hosts[0].KeyFile = name
		if got := endpoints(t, c)[0]; got.Agent || got.KeyFile != file(filepath.Base(name)) {
			t.Errorf("%s that the agent may have: %+v", name, got)
		}
	}
}

// Lines of known_hosts that cannot be read are warnings of the offer.
func TestOddLinesOfKnownHosts(t *testing.T) {
	dir := home(t)
	private, public := keyPair(t, "")
	write(t, filepath.Join(dir, "key"), private)
	write(t, filepath.Join(dir, ".ssh", "known_hosts"), []byte("\ufeffh "+public+"old.lab 1024 35 149\n# mine\nold.lab ssh-rsa AAAA\n\n@revoked h "+public))
	d, err := Config{Hosts: []Host{{Addr: "h", KeyFile: "~/key"}}}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for o := range d.Offers(t.Context(), driver.Query{}) {
		if len(o.Warnings) != 2 || !strings.HasPrefix(o.Warnings[0], "line 2 of ") || !strings.HasPrefix(o.Warnings[1], "line 4 of ") {
			t.Errorf("%q", o.Warnings)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := home(t)
	private, public := keyPair(t, "")
	sealed, _ := keyPair(t, "open sesame")
	files := map[string][]byte{
		"good": private, "sealed": sealed, "good.pub": []byte(public), "text": []byte("hello"),
		"legacy": []byte("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"),
	}
	for name, data := range files {
		write(t, filepath.Join(dir, name), data)
	}
	good := Host{Addr: "h", KeyFile: "~/good", HostKey: fingerprint}
	with := func(change func(*Host)) Config {
		h := good
		change(&h)
		return Config{Hosts: []Host{h}}
	}
	key := func(name string) Config { return with(func(h *Host) { h.KeyFile = name }) }
	addr := func(a string) Config { return with(func(h *Host) { h.Addr = a }) }
	pin := func(k string) Config { return with(func(h *Host) { h.HostKey = k }) }

	for _, tt := range []struct {
		name string
		c    Config
		kind error
		says string
	}{
		{"no hosts", Config{}, driver.ErrInvalid, "ssh.Config{Hosts:"},
		{"no address", addr(""), driver.ErrInvalid, "Addr is empty"},
		{"user in the address", addr("me@h"), driver.ErrInvalid, "into User"},
		{"URL", addr("ssh://h"), driver.ErrInvalid, "not a URL"},
		{"port of letters", addr("h:ssh"), driver.ErrInvalid, `port "ssh"`},
		{"port 0", addr("h:0"), driver.ErrInvalid, `port "0"`},
		{"no host", addr(":22"), driver.ErrInvalid, "names no host"},
		{"an option", addr("-oProxyCommand=x:22"), driver.ErrInvalid, "names no host"},
		{"newline", addr("h\n:22"), driver.ErrInvalid, "not allowed in an address"},
		{"no such key", key("~/nothing"), driver.ErrInvalid, filepath.Join(dir, "nothing")},
		{"folder as a key", key("~"), driver.ErrInvalid, "KeyFile"},
		{"another's home", key("~root/.ssh/id_rsa"), driver.ErrInvalid, "full path"},
		{"public key", key("~/good.pub"), driver.ErrAuth, "without .pub"},
		{"no key", key("~/text"), driver.ErrAuth, "ssh-keygen"},
		{"passphrase", key("~/sealed"), driver.ErrAuth, "ssh-add"},
		{"passphrase, old form", key("~/legacy"), driver.ErrAuth, "ssh-add"},
		{"short fingerprint", pin("SHA256:abc"), driver.ErrInvalid, "43 characters"},
		{"placeholder", pin("SHA256:…"), driver.ErrInvalid, "43 characters"},
		{"padded fingerprint", pin(fingerprint + "="), driver.ErrInvalid, "43 characters"},
		{"MD5", pin("MD5:aa:bb"), driver.ErrInvalid, "MD5"},
		{"half a key", pin("ssh-ed25519 AAAA"), driver.ErrInvalid, "whole public key"},
		{"another type than the key's", pin("ssh-rsa " + strings.Fields(public)[1]), driver.ErrInvalid, "whole public key"},
		{"known_hosts missing", with(func(h *Host) { h.HostKey, h.KnownHosts = "", "~/nothing" }), driver.ErrInvalid, "set HostKey"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.c.Open(t.Context())
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v\nwant kind %q and %q", err, tt.kind, tt.says)
			}
		})
	}
}

func TestOpenReportsAllFaults(t *testing.T) {
	home(t)
	_, err := Config{Hosts: []Host{{Addr: "a:x"}, {Addr: "b:y"}}}.Open(t.Context())
	if err == nil || !strings.Contains(err.Error(), `host 0 of Hosts, "a:x"`) || !strings.Contains(err.Error(), `host 1 of Hosts, "b:y"`) {
		t.Errorf("got %v, want a word on both hosts", err)
	}
}

func TestUnreadableFileSaysSo(t *testing.T) {
	err := unreadable("KeyFile", "k", os.ErrPermission, "")
	if !strings.Contains(err.Error(), "may not be read") {
		t.Error(err)
	}
}
