//go:build unix

package hosts

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/ssh"
	xssh "golang.org/x/crypto/ssh"
)

// TestLoginsThatAreRefused leaves nothing on a host that rejects the login or has another host key.
func TestLoginsThatAreRefused(t *testing.T) {
	other := opensshtest.Start(t)
	theirs := xssh.FingerprintSHA256(other.HostKey)
	for _, c := range []struct {
		name  string
		arm   func(t *testing.T, h *e2etest.OwnHost, c *ssh.Host)
		is    error
		says  string
		dials int
	}{
		{"pinned fingerprint", func(t *testing.T, h *e2etest.OwnHost, c *ssh.Host) { c.HostKey = theirs }, gputrain.ErrHostKey, theirs, 2},
		{"pinned key", func(t *testing.T, h *e2etest.OwnHost, c *ssh.Host) {
			c.HostKey = string(xssh.MarshalAuthorizedKey(other.HostKey))
		}, gputrain.ErrHostKey, theirs, 1},
		{"another key in known_hosts", func(t *testing.T, h *e2etest.OwnHost, c *ssh.Host) {
			c.HostKey, c.KnownHosts = "", e2etest.KnownHosts(t, h, other.HostKey)
		}, gputrain.ErrHostKey, theirs, 1},
		{"not in known_hosts", func(t *testing.T, h *e2etest.OwnHost, c *ssh.Host) {
			c.HostKey, c.KnownHosts = "", filepath.Join(t.TempDir(), "known_hosts")
			e2etest.Write(t, c.KnownHosts, nil)
		}, gputrain.ErrHostKey, "ssh-keyscan", 1},
		{"key", func(t *testing.T, h *e2etest.OwnHost, c *ssh.Host) { c.KeyFile = other.KeyFile }, gputrain.ErrAuth, "user ", 1},
		{"user", func(t *testing.T, h *e2etest.OwnHost, c *ssh.Host) { c.User = "nobody-of-that-name" }, gputrain.ErrAuth, "nobody-of-that-name", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := e2etest.NewHost(t)
			host := h.Host()
			c.arm(t, h, &host)
			pool, err := gputrain.Open(t.Context(), ssh.Config{Hosts: []ssh.Host{host}}, gputrain.Spec{MaxReplacements: -1})
			if err == nil {
				pool.Close()
			}
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v; want %v and %q", err, c.is, c.says)
			}
			if errors.Is(c.is, gputrain.ErrHostKey) && !strings.Contains(err.Error(), xssh.FingerprintSHA256(h.Server.HostKey)) {
				t.Errorf("%v does not name the key that the host shows", err)
			}
			if n := h.Link.Dials(); n > c.dials {
				t.Errorf("%d connections were made; %d are enough", n, c.dials)
			}
		})
	}
}

// TestHostThatIsNotThereYet opens a pool on a host that only becomes reachable meanwhile.
func TestHostThatIsNotThereYet(t *testing.T) {
	h := e2etest.NewHost(t)
	h.Link.Refuse(true)
	opened := make(chan error, 1)
	go func() {
		pool, err := gputrain.Open(t.Context(), ssh.Config{Hosts: []ssh.Host{h.Host()}}, gputrain.Spec{MaxReplacements: -1})
		if err == nil {
			err = errors.Join(func() error { _, err := pool.Run(gputrain.Cmd("true")); return err }(), pool.Close())
		}
		opened <- err
	}()
	e2etest.Until(t, "vain connections", func() bool { return h.Link.Dials() > 2 })
	h.Link.Refuse(false)
	if err := <-opened; err != nil {
		t.Error(err)
	}
}
