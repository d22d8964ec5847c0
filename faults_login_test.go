//go:build unix

package gputrain_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/opensshtest"
	"github.com/gputrain/gputrain/providers/ssh"
	xssh "golang.org/x/crypto/ssh"
)

// hostKeyThatChanges gives a host another key while a task runs there. The
// task fails at once, and its node ends by the lease.
func hostKeyThatChanges(t *testing.T) {
	h := newHost(t)
	lost := make(chan error, 1)
	pool := openHosts(t, gputrain.Spec{MaxReplacements: -1, Lease: 2 * gputrain.MinLease}, []gputrain.Option{gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventNode && e.State == "lost" {
			lost <- e.Err
		}
	})}, h)
	started := filepath.Join(t.TempDir(), "started")
	job := pool.Start(gputrain.Script("echo x > '" + started + "'; sleep 600"))
	until(t, "the task", func() bool { return exists(started) })

	before := xssh.FingerprintSHA256(h.srv.HostKey)
	h.srv.NewHostKey()
	after := xssh.FingerprintSHA256(h.srv.HostKey)
	h.srv.Kill()
	h.srv.Resume()

	_, running := job.Wait()
	_, later := pool.Run(gputrain.Cmd("true"))
	for what, err := range map[string]error{"the task that ran": running, "a later task": later, "the event": <-lost} {
		if !errors.Is(err, gputrain.ErrHostKey) || !errors.Is(err, gputrain.ErrNodeLost) {
			t.Errorf("%s: %v", what, err)
		} else if s := err.Error(); !strings.Contains(s, before) || !strings.Contains(s, after) {
			t.Errorf("%s does not name %s and %s: %v", what, before, after, err)
		}
	}
	var te *gputrain.TaskError
	if !errors.As(running, &te) || te.Cause != gputrain.CauseNodeLost {
		t.Errorf("the task ended with %+v", running)
	}
	if s := pool.Nodes()[0].State; s != gputrain.NodeLost {
		t.Errorf("the node is %v", s)
	}
}

// TestLoginsThatAreRefused leaves nothing on a host that the pool may not enter.
func TestLoginsThatAreRefused(t *testing.T) {
	other := opensshtest.Start(t)
	theirs := xssh.FingerprintSHA256(other.HostKey)
	for _, c := range []struct {
		name  string
		arm   func(t *testing.T, h *ownHost, c *ssh.Host)
		is    error
		says  string
		dials int
	}{
		{"pinned fingerprint", func(t *testing.T, h *ownHost, c *ssh.Host) { c.HostKey = theirs }, gputrain.ErrHostKey, theirs, 2},
		{"pinned key", func(t *testing.T, h *ownHost, c *ssh.Host) {
			c.HostKey = string(xssh.MarshalAuthorizedKey(other.HostKey))
		}, gputrain.ErrHostKey, theirs, 1},
		{"another key in known_hosts", func(t *testing.T, h *ownHost, c *ssh.Host) {
			c.HostKey, c.KnownHosts = "", knownHosts(t, h, other.HostKey)
		}, gputrain.ErrHostKey, theirs, 1},
		{"not in known_hosts", func(t *testing.T, h *ownHost, c *ssh.Host) {
			c.HostKey, c.KnownHosts = "", filepath.Join(t.TempDir(), "known_hosts")
			write(t, c.KnownHosts, nil)
		}, gputrain.ErrHostKey, "ssh-keyscan", 1},
		{"key", func(t *testing.T, h *ownHost, c *ssh.Host) { c.KeyFile = other.KeyFile }, gputrain.ErrAuth, "user ", 1},
		{"user", func(t *testing.T, h *ownHost, c *ssh.Host) { c.User = "nobody-of-that-name" }, gputrain.ErrAuth, "nobody-of-that-name", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			host := h.host()
			c.arm(t, h, &host)
			pool, err := gputrain.Open(t.Context(), ssh.Config{Hosts: []ssh.Host{host}}, gputrain.Spec{MaxReplacements: -1})
			if err == nil {
				pool.Close()
			}
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v; want %v and %q", err, c.is, c.says)
			}
			if errors.Is(c.is, gputrain.ErrHostKey) && !strings.Contains(err.Error(), xssh.FingerprintSHA256(h.srv.HostKey)) {
				t.Errorf("%v does not say what the host shows", err)
			}
			if n := h.link.Dials(); n > c.dials {
				t.Errorf("%d connections were made; %d are enough", n, c.dials)
			}
		})
	}
}

// TestHostThatIsNotThereYet comes up while the pool waits for it.
func TestHostThatIsNotThereYet(t *testing.T) {
	h := newHost(t)
	h.link.Refuse(true)
	opened := make(chan error, 1)
	go func() {
		pool, err := gputrain.Open(t.Context(), ssh.Config{Hosts: []ssh.Host{h.host()}}, gputrain.Spec{MaxReplacements: -1})
		if err == nil {
			err = errors.Join(func() error { _, err := pool.Run(gputrain.Cmd("true")); return err }(), pool.Close())
		}
		opened <- err
	}()
	until(t, "vain connections", func() bool { return h.link.Dials() > 2 })
	h.link.Refuse(false)
	if err := <-opened; err != nil {
		t.Error(err)
	}
}
