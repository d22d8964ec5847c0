//go:build unix

package simnode_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/test/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is a node, real or simulated, with what is needed to reach it.
type rig struct {
	server   *sshd.Server
	login    ssh.Config // without Dial
	client   *client    // of the program that starts the node
	id       string     // of its pool
	node     *supervisor.Node
	lapsed   chan struct{} // closed when the node has ended itself
	lapsedAt time.Time     // set when lapsed is closed
}

// A client is a program's connection to the rig.
type client struct {
	*ssh.Client
	off atomic.Bool // if set, it cannot dial
}

// both runs a test against real processes under the real scripts, and against a simulated node.
func both(t *testing.T, lease time.Duration, exec func(context.Context, simnode.Command) int, f func(t *testing.T, r *rig)) {
	t.Run("real", func(t *testing.T) { real(t, lease, f) })
	t.Run("simulated", func(t *testing.T) { simulated(t, lease, exec, f) })
}

// overTime is both for long tests: simulated nodes use virtual time, and real ones run in parallel.
func overTime(t *testing.T, lease time.Duration, exec func(context.Context, simnode.Command) int, f func(t *testing.T, r *rig)) {
	t.Parallel()
	t.Run("real", func(t *testing.T) {
		if lease == shortLease && testing.Short() {
			t.Skip("scripts/test -deep runs it: a busy machine can miss its lease; internal/supervisor tests the scripts' leases by a clock of its own")
		}
		real(t, lease, f)
	})
	t.Run("simulated", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) { simulated(t, lease, exec, f) })
	})
}

func real(t *testing.T, lease time.Duration, f func(t *testing.T, r *rig)) {
	dir := t.TempDir()
	r := &rig{lapsed: make(chan struct{})}
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if info, err := os.Stat(dir + "/lapsed"); err == nil {
				r.lapsedAt = info.ModTime()
				close(r.lapsed)
				return
			}
		}
	})
	defer watch.Wait()
	defer close(stop)
	r.start(t, sshd.Config{Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}}, lease, "touch "+dir+"/lapsed; GPUTRAIN_REMOVE=1")
	f(t, r)
}

func simulated(t *testing.T, lease time.Duration, exec func(context.Context, simnode.Command) int, f func(t *testing.T, r *rig)) {
	r := &rig{lapsed: make(chan struct{})}
	n := simnode.New(simnode.Config{Exec: exec, CPUs: 3, MemoryBytes: 1 << 30, DiskBytes: 1 << 40, Lapsed: func(text string) {
		if text != "end it" {
			t.Errorf("the node is to end itself by %q", text)
		}
		r.lapsedAt = time.Now()
		close(r.lapsed)
	}})
	t.Cleanup(func() { n.End(); n.Wait() })
	r.start(t, sshd.Config{Run: n.Run}, lease, "end it")
	f(t, r)
}

func (r *rig) start(t *testing.T, cfg sshd.Config, lease time.Duration, selfDestruct string) {
	t.Helper()
	host, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	login, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	cfg.HostKey, cfg.AuthorizedKeys = host, []xssh.PublicKey{login.PublicKey()}
	if r.server, err = sshd.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.server.Close() })
	r.login = ssh.Config{User: "anyone", Auth: []xssh.AuthMethod{xssh.PublicKeys(login)}, HostKey: xssh.FixedHostKey(host.PublicKey())}
	r.client = r.connect(t)
	r.id = fmt.Sprintf("same-%d-%d", os.Getpid(), seq.Add(1))
	r.node, err = supervisor.Start(t.Context(), r.client.Client, supervisor.Config{PoolID: r.id, Lease: lease, SelfDestruct: selfDestruct, Disk: true})
	if err != nil {
		t.Fatal(err)
	}
	closes(t, r.node)
}

// connect returns another program's connection.
func (r *rig) connect(t *testing.T) *client {
	t.Helper()
	c := &client{}
	cfg := r.login
	cfg.Dial = func(context.Context) (net.Conn, error) {
		if c.off.Load() {
			return nil, errors.New("no route")
		}
		return r.server.Dial()
	}
	c.Client = ssh.New(cfg)
	t.Cleanup(func() { c.Close() })
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// closes closes a node at the end of the test, if it is still this client's and can be reached.
func closes(t *testing.T, n *supervisor.Node) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		n.Close(ctx, true)
	})
}

func newKey() (xssh.Signer, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	return xssh.NewSignerFromKey(key)
}

var seq atomic.Int64

// wait sleeps for d, and returns early with TERM's code if ctx ends.
func wait(ctx context.Context, d time.Duration) int {
	select {
	case <-time.After(d):
		return 0
	case <-ctx.Done():
		return -15
	}
}

// getenv returns a variable of a simulated task's environment.
func getenv(c simnode.Command, name string) string {
	for _, v := range slices.Backward(c.Env) {
		if v, ok := strings.CutPrefix(v, name+"="); ok {
			return v
		}
	}
	return ""
}
