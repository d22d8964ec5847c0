//go:build unix

package e2etest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/ssh"
	xssh "golang.org/x/crypto/ssh"
)

// KnownHosts writes a known_hosts file that has this key for the host, and returns its path.
func KnownHosts(t testing.TB, h *OwnHost, key xssh.PublicKey) string {
	t.Helper()
	host, port, err := net.SplitHostPort(h.Link.Addr)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "known_hosts")
	Write(t, file, []byte(fmt.Sprintf("[%s]:%s %s", host, port, xssh.MarshalAuthorizedKey(key))))
	return file
}

// An OwnHost is a machine that the user owns: an OpenSSH server behind a link with faults. Its logins have their own
// home folder.
type OwnHost struct {
	Server *opensshtest.Server
	Link   *opensshtest.Link
	Home   string
}

// NewHost starts a host. At the end of the test, when its pools are closed, the host must be in its initial state. env
// adds variables to the environment of its logins.
func NewHost(t testing.TB, env ...string) *OwnHost {
	t.Helper()
	return NewHostAt(t, filepath.Join(t.TempDir(), "home"), env...)
}

// NewHostAt starts a host with its home at a path. Existing files there must remain.
func NewHostAt(t testing.TB, home string, env ...string) *OwnHost {
	t.Helper()
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	return newHost(t, home, opensshtest.Config(setEnv(home, env)))
}

// NewHostOf is NewHost with a login of one's own.
func NewHostOf(t testing.TB, l opensshtest.Login, env ...string) *OwnHost {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	l.Write(t, home)
	return newHost(t, home, opensshtest.Config(setEnv(home, env)), opensshtest.LoginShell(t, l))
}

// setEnv returns the line of sshd_config that sets the environment of logins.
func setEnv(home string, env []string) string {
	line := "SetEnv"
	for _, e := range append([]string{"HOME=" + home}, env...) {
		line += ` "` + e + `"`
	}
	return line
}

func newHost(t testing.TB, home string, opts ...opensshtest.Option) *OwnHost {
	t.Helper()
	found := Tree(home)
	srv := opensshtest.Start(t, opts...)
	h := &OwnHost{Server: srv, Link: opensshtest.Proxy(t, srv.Addr), Home: home}
	t.Cleanup(func() { h.WantAsFound(t, found...) })
	return h
}

// Host returns the host's configuration for a pool: over the link, with a key file and a pinned host key.
func (h *OwnHost) Host() ssh.Host {
	return ssh.Host{Addr: h.Link.Addr, User: h.Server.User, KeyFile: h.Server.KeyFile, HostKey: xssh.FingerprintSHA256(h.Server.HostKey)}
}

// WantAsFound waits until the host has no processes, and no files but these.
func (h *OwnHost) WantAsFound(t testing.TB, files ...string) {
	t.Helper()
	var left []string
	if Settles(func() bool {
		left = append(ProcessesWith("HOME="+h.Home), Tree(h.Home)...)
		return slices.Equal(left, files)
	}) {
		return
	}
	t.Errorf("the host has\n\t%s\nand had before\n\t%s", strings.Join(left, "\n\t"), strings.Join(files, "\n\t"))
}

// OpenHosts opens a pool on hosts, and closes it at the end of the test. The test fails if processes of the pool
// remain.
func OpenHosts(t testing.TB, spec gputrain.Spec, opts []gputrain.Option, hosts ...*OwnHost) *gputrain.Compute {
	t.Helper()
	var c ssh.Config
	for _, h := range hosts {
		c.Hosts = append(c.Hosts, h.Host())
	}
	spec.Nodes = len(hosts)
	return OpenOwn(t, c, spec, opts...)
}

// OpenOwn is OpenHosts with the test's own configuration.
func OpenOwn(t testing.TB, c ssh.Config, spec gputrain.Spec, opts ...gputrain.Option) *gputrain.Compute {
	t.Helper()
	opts = append([]gputrain.Option{gputrain.WithResultsDir(t.TempDir())}, opts...)
	pool, err := gputrain.Open(t.Context(), c, spec, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		lost := slices.ContainsFunc(pool.Nodes(), func(n gputrain.Node) bool { return n.State == gputrain.NodeLost })
		err := pool.Close()
		if _, leak := errors.AsType[*gputrain.LeakError](err); lost && !leak || !lost && err != nil {
			t.Errorf("close, with a node that is lost %v: %v", lost, err)
		}
		var left []string
		if !Settles(func() bool { left = ProcessesWith("GPUTRAIN_POOL=" + pool.ID()); return len(left) == 0 }) {
			t.Errorf("processes of the pool are left:\n\t%s", strings.Join(left, "\n\t"))
		}
	})
	return pool
}

// ProcessesWith lists the processes whose environment has the variable, by pid and command line. It finds none except
// on Linux, which shows environments in /proc.
func ProcessesWith(variable string) (found []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, err := os.ReadFile(dir + "/environ")
		if err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return string(v) == variable }) {
			line, _ := os.ReadFile(dir + "/cmdline")
			found = append(found, filepath.Base(dir)+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		}
	}
	return found
}
