package kubernetes

import (
	"bufio"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// dialed returns a driver on a fake, with a node that runs.
func dialed(t *testing.T, f *fake, reach Reach) (*kubernetesDriver, driver.Instance) {
	t.Helper()
	c := f.config()
	c.Reach = reach
	d := cloudtest.Prepared(t, c).(*kubernetesDriver)
	in := cloudtest.MustLaunch(t, d, oneA100.Query(), 0)
	return d, cloudtest.Describe(t, d, in.ID)
}

func greeting(t *testing.T, nc net.Conn) {
	t.Helper()
	line, err := bufio.NewReader(nc).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "SSH-2.0-") {
		t.Errorf("%q, %v", line, err)
	}
}

// A connection is forwarded over WebSocket, and over SPDY if that is refused.
func TestForward(t *testing.T) {
	t.Parallel()
	for refused, want := range map[string][]string{
		"":          {"websocket portforward"},
		"websocket": {"websocket portforward", "spdy portforward"},
	} {
		f := startFake(t)
		f.mu.Lock()
		f.refuse[refused] = true
		f.mu.Unlock()
		d, in := dialed(t, f, ReachAuto)
		nc, err := d.Dial(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		greeting(t, nc)
		if nc.RemoteAddr().Network() != "kubernetes" || !strings.HasPrefix(nc.RemoteAddr().String(), "p1-0-") || nc.LocalAddr().String() != "local" {
			t.Errorf("%v, %v", nc.LocalAddr(), nc.RemoteAddr())
		}
		for range 2 {
			if err := nc.Close(); err != nil {
				t.Error(err)
			}
		}
		f.mu.Lock()
		if !slices.Equal(f.forwards, want) {
			t.Errorf("without %q: %q; want %q", refused, f.forwards, want)
		}
		f.mu.Unlock()
	}
}

// An error names all ways that were tried.
func TestForwardRefused(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.refuse["websocket"], f.refuse["spdy"] = true, true
	d, in := dialed(t, f, ReachForward)
	_, err := d.Dial(t.Context(), in)
	cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "dial", testToken)
	for _, want := range []string{"by WebSocket", "by SPDY", "set Reach to exec"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestDialErrors(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d, in := dialed(t, f, ReachForward)
	f.without("create", "pods/portforward")
	_, err := d.Dial(t.Context(), in)
	cloudtest.Is(t, err, driver.ErrAuth, providerName, "dial", testToken)
	if err == nil || !strings.Contains(err.Error(), "role.yaml") {
		t.Errorf("%v", err)
	}

	f = startFake(t)
	f.Do(func() { f.stalled = true })
	d, in = dialed(t, f, ReachForward)
	_, err = d.Dial(t.Context(), in)
	cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "dial", testToken)
	if err == nil || !strings.Contains(err.Error(), "does not have a host assigned") {
		t.Errorf("%v", err)
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	_, err = d.Dial(t.Context(), in)
	cloudtest.Is(t, err, driver.ErrNotFound, providerName, "dial", testToken)
}

// If no server listens, the connection ends with the API server's reason.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Do(func() { f.noNodes = true })
	d, in := dialed(t, f, ReachForward)
	nc, err := d.Dial(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "error forwarding port 2222") {
		t.Errorf("%v", err)
	}
}

// A deadline that passes ends the connection, and one that is taken back does not.
func TestDialDeadline(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d, in := dialed(t, f, ReachForward)
	nc, err := d.Dial(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(time.Hour))
	nc.SetWriteDeadline(time.Time{})
	greeting(t, nc)
	nc.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	for err == nil {
		_, err = nc.Read(make([]byte, 1<<10))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := nc.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("writing: %v", err)
	}
}

// Exec needs a right of its own. The real cluster has the rest: see TestRealReach.
func TestExecRefused(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Do(func() {
		f.rules = append(f.rules, rule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"pods/exec"}})
	})
	f.refuse["exec"] = true
	d, in := dialed(t, f, ReachExec)
	_, err := d.Dial(t.Context(), in)
	cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "dial", testToken)
}

// From outside the cluster a pod's address is not reached.
func TestDirect(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d, in := dialed(t, f, ReachDirect)
	in.PrivateAddr = ""
	_, err := d.Dial(t.Context(), in)
	cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "dial", testToken)
	if listener, err := net.Listen("tcp", "127.0.0.1:2222"); err == nil { // else another server answers there
		defer listener.Close()
	}
	in.PrivateAddr = "127.0.0.1"
	nc, err := d.Dial(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

// A cluster elsewhere cannot have this program connect to this computer, or to what only its link has.
func TestDirectIsNotLocal(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d, in := dialed(t, f, ReachDirect)
	for _, k := range d.api.clusters {
		k.server = "https://203.0.113.7:6443"
	}
	for _, addr := range []string{"127.0.0.1", "::1", "0.0.0.0", "169.254.169.254", "168.63.129.16", "64:ff9b::127.0.0.1", "2130706433", "localhost"} {
		in.PrivateAddr = addr
		_, err := d.Dial(t.Context(), in)
		cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "dial", testToken)
		if !errors.Is(err, localnet.ErrLocal) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
