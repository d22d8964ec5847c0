package reach

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

func newTest(t *testing.T, servers ...Server) *Access {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	a := New(Config{
		Pool: "p-1", Provider: "acme", Context: ctx, Servers: func() []Server { return servers },
		Trouble: func(about string, err error) { t.Errorf("%s: %v", about, err) },
	})
	t.Cleanup(func() {
		cancel(driver.ErrClosed)
		a.Close()
	})
	return a
}

// What a provider reports cannot add options to the file, and a server without a proved key is left out.
func TestComposeRefuses(t *testing.T) {
	good := Server{Rank: 3, Name: "p-1-3", Addr: "203.0.113.7:2222", User: "ubuntu", KeyFile: "/a b/%k", HostKey: "ssh-ed25519 AAAA"}
	for name, change := range map[string]func(*Server){
		"a line in the user":    func(s *Server) { s.User = "me\n\tProxyCommand evil" },
		"a word in the user":    func(s *Server) { s.User = "me ProxyCommand" },
		"an option as the user": func(s *Server) { s.User = "-oProxyCommand=evil" },
		"a line in the host":    func(s *Server) { s.Addr = "a\nProxyCommand evil:22" },
		"a token in the host":   func(s *Server) { s.Addr = "%h:22" },
		"an option as the host": func(s *Server) { s.Addr = "-oX:22" },
		"no address":            func(s *Server) { s.Addr = "" },
		"no key":                func(s *Server) { s.HostKey = "" },
	} {
		bad := good
		change(&bad)
		config, keys := newTest(t).files.compose("/c", []Server{bad})
		if strings.Contains(string(config), "Host ") || strings.Count(string(keys), "\n") != 1 {
			t.Errorf("%s: %s%s", name, config, keys)
		}
	}
	config, keys := newTest(t).files.compose("/x/100% mine", []Server{good})
	for _, want := range []string{
		"\nHost node-3 p-1-3\n\tHostName 203.0.113.7\n\tPort 2222\n\tUser ubuntu\n\tIdentityFile \"/a b/%%k\"\n\tIdentitiesOnly yes\n",
		"\tUserKnownHostsFile \"/x/100%% mine.known_hosts\"\n", "\tStrictHostKeyChecking yes\n",
	} {
		if !strings.Contains(string(config), want) {
			t.Errorf("no %q in\n%s", want, config)
		}
	}
	if !strings.HasSuffix(string(keys), "\np-1-3 ssh-ed25519 AAAA\n") {
		t.Errorf("%s", keys)
	}
	good.Agent, good.KeyFile = true, ""
	if config, _ := newTest(t).files.compose("/c", []Server{good}); strings.Contains(string(config), "Identit") {
		t.Errorf("with an agent: %s", config)
	}
}

func TestPathsThatOpenSSHCannotHold(t *testing.T) {
	a := newTest(t)
	for _, name := range []string{`a"b`, "a\nb", "a${HOME}b", ""} {
		path := name
		if name != "" {
			path = filepath.Join(t.TempDir(), name)
		}
		if err := a.WriteSSHConfig(path); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func FuzzTarget(f *testing.F) {
	for _, addr := range []string{"127.0.0.1:6006", ":80", "[::1]:22", "host", "a b:1", "-x:1", "x:0", "x:65536", "x:http", "\x00:1"} {
		f.Add(addr)
	}
	f.Fuzz(func(t *testing.T, addr string) {
		to, err := parseTarget(addr)
		if err != nil {
			return
		}
		if to.port < 1 || to.port > 65535 || to.host == "" || to.host[0] == '-' || strings.ContainsAny(to.host, " \n\x00") {
			t.Errorf("%q is %+v", addr, to)
		}
		if again, err := parseTarget(to.String()); err != nil || again != to {
			t.Errorf("%q is %v, and that %v, %v", addr, to, again, err)
		}
	})
}

// Each line of a file comes from this package, whatever a provider reports.
func FuzzCompose(f *testing.F) {
	f.Add("203.0.113.7:22", "ubuntu")
	f.Add("h\nProxyCommand x:1", "u\nProxyCommand x")
	f.Add("\"h:1", "$(x)")
	known := []string{"Host", "HostName", "Port", "User", "IdentityFile", "IdentitiesOnly", "HostKeyAlias", "UserKnownHostsFile", "GlobalKnownHostsFile",
		"StrictHostKeyChecking", "UpdateHostKeys", "ServerAliveInterval", "#", ""}
	f.Fuzz(func(t *testing.T, addr, user string) {
		a := New(Config{Pool: "p-1", Context: t.Context()})
		config, _ := a.files.compose("/c", []Server{{Name: "p-1-0", Addr: addr, User: user, KeyFile: "/k", HostKey: "ssh-ed25519 AAAA"}})
		for line := range strings.Lines(string(config)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			if !slices.Contains(known, word) {
				t.Errorf("the line %q", line)
			}
		}
	})
}
