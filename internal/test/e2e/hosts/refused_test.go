//go:build unix

package hosts

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/internal/test/ports"
	"github.com/gputrain/gputrain/providers/ssh"
	xssh "golang.org/x/crypto/ssh"
)

// A connectCount counts how often a pool starts to connect to a machine.
type connectCount struct {
	mu sync.Mutex
	n  int
}

func (c *connectCount) take(e gputrain.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Kind == gputrain.EventNode && e.State == gputrain.NodeConnecting.String() {
		c.n++
	}
}

func (c *connectCount) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// An error that will not go away on an existing host is reported after one attempt at each host.
// Spec.MaxReplacements does not apply.
func TestCertainFailuresAreNotTriedAgain(t *testing.T) {
	other := opensshtest.Start(t)
	for _, c := range []struct {
		name string
		arm  func(t *testing.T, h *ssh.Host)
		spec gputrain.Spec
		is   error
		says []string
	}{
		{"wrong host key", func(t *testing.T, h *ssh.Host) { h.HostKey = string(xssh.MarshalAuthorizedKey(other.HostKey)) }, gputrain.Spec{},
			gputrain.ErrHostKey, []string{xssh.FingerprintSHA256(other.HostKey), "ssh-keygen -R"}},
		{"refused login", func(t *testing.T, h *ssh.Host) { h.KeyFile = other.KeyFile }, gputrain.Spec{},
			gputrain.ErrAuth, []string{"authorized_keys", "KeyFile", "ssh -p "}},
		{"refused port", func(t *testing.T, h *ssh.Host) { h.Addr = ports.Dead(t).String() }, gputrain.Spec{},
			gputrain.ErrUnavailable, []string{"connection refused, for 5s", "ssh -p ", "firewall"}},
		{"too small", func(t *testing.T, h *ssh.Host) {}, gputrain.Spec{MemoryGiB: 1 << 20},
			gputrain.ErrNoOffers, []string{"GiB of memory"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := e2etest.NewHost(t)
			host := h.Host()
			c.arm(t, &host)
			var connects connectCount
			pool, err := gputrain.Open(t.Context(), ssh.Config{Hosts: []ssh.Host{host}}, c.spec, gputrain.WithEvents(connects.take))
			if err == nil {
				pool.Close()
			}
			if !errors.Is(err, c.is) {
				t.Fatalf("got %v; want %v", err, c.is)
			}
			for _, s := range append(c.says, host.Addr) {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%v does not contain %q", err, s)
				}
			}
			if n := connects.count(); n != 1 {
				t.Errorf("%d attempts were made; one is enough", n)
			}
		})
	}
}

// A node whose host fails permanently moves to another host, if one is free.
func TestCertainFailuresMoveToAnotherHost(t *testing.T) {
	good, bad, other := e2etest.NewHost(t), e2etest.NewHost(t), opensshtest.Start(t)
	wrong := bad.Host()
	wrong.HostKey = string(xssh.MarshalAuthorizedKey(other.HostKey))
	var connects connectCount
	pool := e2etest.OpenOwn(t, ssh.Config{Hosts: []ssh.Host{wrong, good.Host()}}, gputrain.Spec{}, gputrain.WithEvents(connects.take))
	if r, err := pool.Run(gputrain.Script(`echo "$HOME"`)); err != nil || string(r.Stdout) != good.Home+"\n" {
		t.Errorf("it ran at %q: %v", r.Stdout, err)
	}
	if n := connects.count(); n != 2 || bad.Link.Dials() != 1 {
		t.Errorf("%d attempts were made, %d of them at the host that is wrong; two are enough, one each", n, bad.Link.Dials())
	}
}

// More nodes than hosts are refused before any host is contacted.
func TestMoreNodesThanHostsAreRefusedAtOnce(t *testing.T) {
	a, b := e2etest.NewHost(t), e2etest.NewHost(t)
	var connects connectCount
	pool, err := gputrain.Open(t.Context(), ssh.Config{Hosts: []ssh.Host{a.Host(), b.Host()}}, gputrain.Spec{Nodes: 3}, gputrain.WithEvents(connects.take))
	if err == nil {
		pool.Close()
	}
	if !errors.Is(err, gputrain.ErrNoCapacity) || !strings.Contains(err.Error(), "2 machines") || !strings.Contains(err.Error(), "asks for 3") || !strings.Contains(err.Error(), "listed twice") {
		t.Errorf("got %v", err)
	}
	if n := connects.count() + a.Link.Dials() + b.Link.Dials(); n != 0 {
		t.Errorf("%d attempts were made at hosts", n)
	}
}
