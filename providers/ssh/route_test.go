package ssh

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/driver"
	xssh "golang.org/x/crypto/ssh"
)

// way returns a route as user@host:port, with the names of its key files and its known_hosts file.
func way(hops []driver.Endpoint) string {
	var b strings.Builder
	for _, e := range hops {
		fmt.Fprintf(&b, "%s@%s", e.User, e.Addr)
		for _, f := range e.Identities() {
			b.WriteString(" " + filepath.Base(f))
		}
		if e.KnownHosts != "" && filepath.Base(e.KnownHosts) != "known_hosts" {
			b.WriteString(" by " + filepath.Base(e.KnownHosts))
		}
		b.WriteString("; ")
	}
	return strings.TrimSuffix(b.String(), "; ")
}

// What a Host leaves empty is as ssh(1) reads it from its configuration.
func TestConfigFileIsReadAsSSHDoes(t *testing.T) {
	opensshtest.Client(t, "ssh")
	dir := home(t)
	private, _ := keyPair(t, "")
	for _, name := range []string{"id_ed25519", "lab_alice", "named"} {
		write(t, filepath.Join(dir, ".ssh", name), private)
	}
	write(t, filepath.Join(dir, ".ssh", "labs_known"), nil)
	write(t, filepath.Join(dir, "more"), []byte("Host inc\n  HostName included.example\n  User inky\n"))
	write(t, filepath.Join(dir, ".ssh", "config"), fmt.Appendf(nil, `
Include %[1]s/more
Host gpu*
	HostName %%h.lab.example
	User alice
	Port 2222
	IdentityFile %[1]s/.ssh/none
	IdentityFile ~/.ssh/lab_%%r
	UserKnownHostsFile %[1]s/none %[1]s/.ssh/labs_known
	ProxyJump bob@gw:2200,[2001:db8::1]
Host gw
	HostName gateway.example
	ProxyJump ssh://outer.example:2022
Host six
	HostName six.lab.example
Match host six.lab.example
	User six
Host * !plain
	User others
`, dir))
	onTheWay, door := []Host{{Addr: "door", ConfigFile: "none", User: "me"}}, "me@door:22 id_ed25519; "
	for _, tt := range []struct {
		what string
		host Host
		want string
		jump []Host
	}{
		{"no entry", Host{Addr: "plain", User: "me"}, "me@plain:22 id_ed25519", nil},
		{"an entry", Host{Addr: "gpu1"}, door + "alice@gpu1.lab.example:2222 lab_alice by labs_known", onTheWay},
		{"what the Host says comes first", Host{Addr: "gpu1:22", User: "me", KeyFile: "~/.ssh/named", KnownHosts: "~/.ssh/known_hosts"}, door + "me@gpu1.lab.example:22 named", onTheWay},
		{"an included file", Host{Addr: "inc"}, "inky@included.example:22 id_ed25519", nil},
		{"a Match by the host's own name", Host{Addr: "six"}, "six@six.lab.example:22 id_ed25519", nil},
		{"a ProxyJump, of which the first host has its own", Host{Addr: "gpu2"},
			"others@outer.example:2022 id_ed25519; bob@gateway.example:2200 id_ed25519; others@[2001:db8::1]:22 id_ed25519; alice@gpu2.lab.example:2222 lab_alice by labs_known", nil},
		{"a jump of its own", Host{Addr: "inc"}, door + "inky@included.example:22 id_ed25519", onTheWay},
		{"no file", Host{Addr: "gpu1", User: "me", ConfigFile: "none"}, "me@gpu1:22 id_ed25519", nil},
		{"another file", Host{Addr: "inc", ConfigFile: "~/more"}, "inky@included.example:22 id_ed25519", nil},
	} {
		hops, err := tt.host.Route(tt.jump...)
		if got := way(hops); got != tt.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", tt.what, got, err, tt.want)
		}
	}
	d, err := Config{Hosts: []Host{{Addr: "inc"}, {Addr: "inc"}}}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "IDs do not depend on the file", offered(t, d), "inc:22", "inc:22#2")
}

// What the file says and this package cannot do is refused, or told with the offer.
func TestConfigFileThatCannotBeFollowed(t *testing.T) {
	opensshtest.Client(t, "ssh")
	dir := home(t)
	private, _ := keyPair(t, "")
	write(t, filepath.Join(dir, ".ssh", "id_ed25519"), private)
	file := filepath.Join(dir, ".ssh", "config")
	for _, tt := range []struct {
		text string
		host Host
		kind error
		says string
	}{
		{"ProxyCommand nc %h %p", Host{Addr: "gpu"}, driver.ErrUnsupported, "which only ssh(1) runs"},
		{"ProxyJump gpu2\nHost gpu\n ProxyJump gpu", Host{Addr: "gpu"}, driver.ErrInvalid, "loop"}, // ssh(1) sees this one
		{"Host a\n ProxyJump b\nHost b\n ProxyJump a", Host{Addr: "a"}, driver.ErrInvalid, "more than 16 hosts on the way"},
		{"Bogus yes", Host{Addr: "gpu"}, driver.ErrInvalid, "Bad configuration option"},
		{"", Host{Addr: "gpu", ConfigFile: "~/nowhere"}, driver.ErrInvalid, "there is no file"},
		{"IdentityFile ~/.ssh/missing", Host{Addr: "gpu"}, driver.ErrInvalid, "there is no file"},
		{"ProxyJump user@-oProxyCommand=x", Host{Addr: "gpu"}, driver.ErrInvalid, ""},
		{"HostName -oProxyCommand=x", Host{Addr: "gpu"}, driver.ErrInvalid, ""},
	} {
		write(t, file, []byte(tt.text+"\n"))
		_, err := Config{Hosts: []Host{tt.host}}.Open(t.Context())
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), `"gpu"`) && !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("%s: %v", tt.text, err)
		}
	}
	write(t, file, []byte("HostKeyAlias other\nCertificateFile ~/x-cert.pub\nIdentityAgent /run/agent\n"))
	d, err := Config{Hosts: []Host{{Addr: "gpu"}}}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	warnings := func() (all string) {
		for o, err := range d.Offers(t.Context(), driver.Query{}) {
			all += fmt.Sprint(o.Warnings, err)
		}
		return all
	}
	for _, want := range []string{"HostKeyAlias other", "certificatefile", "IdentityAgent"} {
		if got := warnings(); !strings.Contains(got, want) {
			t.Errorf("warnings %s lack %s", got, want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if d, err = (Config{Hosts: []Host{{Addr: "gpu"}}}).Open(t.Context()); err != nil || !strings.Contains(warnings(), "is not read: ssh is not installed") {
		t.Errorf("without ssh(1): %v", err)
	}
	if _, err = (Config{Hosts: []Host{{Addr: "gpu", ConfigFile: file}}}).Open(t.Context()); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("without ssh(1), and with a file that is named: %v", err)
	}
}

// Hosts that are reached through others run tasks, by Jump and by ProxyJump, over one connection to those on the way.
func TestJump(t *testing.T) {
	opensshtest.Client(t, "ssh")
	door, inner, target := opensshtest.Start(t), opensshtest.Start(t), opensshtest.Start(t)
	link := opensshtest.Proxy(t, door.Addr)
	of := func(s *opensshtest.Server, addr string) Host {
		return Host{Addr: addr, User: s.User, KeyFile: s.KeyFile, HostKey: xssh.FingerprintSHA256(s.HostKey), ConfigFile: "none"}
	}
	lab := Config{Jump: []Host{of(door, link.Addr), of(inner, inner.Addr)}, Hosts: []Host{of(target, target.Addr), of(target, target.Addr)}}
	pool, err := gputrain.Open(t.Context(), lab, gputrain.Spec{Nodes: 2}, gputrain.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	results, err := pool.Broadcast(gputrain.Cmd("sh", "-c", "echo ${SSH_CONNECTION%% *}"))
	if err != nil || len(results) != 2 {
		t.Errorf("%v, %v", results, err)
	}
	if n := link.Dials(); n != 1 {
		t.Errorf("%d connections to the first host on the way", n)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(time.Minute); link.Open() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections are left", link.Open())
		}
	}

	dir := home(t)
	known := fmt.Sprintf("[127.0.0.1]:%s %s", port(t, link.Addr), xssh.MarshalAuthorizedKey(door.HostKey)) +
		fmt.Sprintf("[127.0.0.1]:%s %s", port(t, target.Addr), xssh.MarshalAuthorizedKey(target.HostKey))
	write(t, filepath.Join(dir, ".ssh", "known_hosts"), []byte(known))
	write(t, filepath.Join(dir, ".ssh", "config"), fmt.Appendf(nil, "Host door\n HostName 127.0.0.1\n Port %s\n User %s\n IdentityFile %s\nHost gpu\n HostName 127.0.0.1\n Port %s\n User %s\n IdentityFile %s\n ProxyJump door\n",
		port(t, link.Addr), door.User, door.KeyFile, port(t, target.Addr), target.User, target.KeyFile))
	before := link.Dials()
	if pool, err = gputrain.Open(t.Context(), Config{Hosts: []Host{{Addr: "gpu"}}}, gputrain.Spec{}, gputrain.WithStateDir(t.TempDir())); err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if out, err := pool.Run(gputrain.Cmd("echo", "there")); err != nil || string(out.Stdout) != "there\n" || link.Dials() == before {
		t.Errorf("%v, %v, %d connections", out, err, link.Dials()-before)
	}
}

// An error tells which of the hosts on the way refuses.
func TestJumpThatFails(t *testing.T) {
	door, target := opensshtest.Start(t), opensshtest.Start(t)
	for what, tt := range map[string]struct {
		keyFile string
		key     xssh.PublicKey
		kind    error
	}{
		"another host key": {door.KeyFile, target.HostKey, driver.ErrHostKey},
		"another key":      {target.KeyFile, door.HostKey, driver.ErrAuth},
	} {
		h := Host{Addr: target.Addr, User: target.User, KeyFile: target.KeyFile, HostKey: xssh.FingerprintSHA256(target.HostKey), ConfigFile: "none"}
		by := []Host{{Addr: door.Addr, User: door.User, KeyFile: tt.keyFile, HostKey: xssh.FingerprintSHA256(tt.key), ConfigFile: "none"}}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := gputrain.Open(ctx, Config{Hosts: []Host{h}, Jump: by}, gputrain.Spec{}, gputrain.WithStateDir(t.TempDir()))
		cancel()
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), door.Addr) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func port(t *testing.T, addr string) string {
	t.Helper()
	_, p, err := address(addr)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A host that is reached directly needs no dialer: other programs reach it as this one does.
func TestNoDialerWithoutJumps(t *testing.T) {
	d := open(t, "a", "b")
	if _, ok := d.(driver.Dialer); ok {
		t.Errorf("%v", reflect.TypeOf(d))
	}
}
