//go:build unix

package reach

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/ssh"
	xssh "golang.org/x/crypto/ssh"
)

func TestDialAndForward(t *testing.T) {
	onEach(t, gputrain.Spec{Concurrency: 2}, func(t *testing.T, pool *gputrain.Compute) {
		at := echo(t, pool)
		conn, err := pool.Dial(t.Context(), 0, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := exchange(t, conn, "dialed"); got != "dialed" {
			t.Errorf("got %q", got)
		}
		conn.Close()

		board, err := pool.Forward(t.Context(), ":0", 0, at)
		if err != nil {
			t.Fatal(err)
		}
		defer board.Close()
		if addr := board.Addr().(*net.TCPAddr); !addr.IP.IsLoopback() || addr.Port == 0 {
			t.Errorf("it listens at %v", addr)
		}
		var many []net.Conn
		for range 20 {
			conn, err := net.Dial("tcp", board.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			many = append(many, conn)
		}
		for i, conn := range many {
			want := strings.Repeat(string(rune('a'+i)), 100_000)
			if got := exchange(t, conn, want); got != want {
				t.Errorf("connection %d: %d bytes", i, len(got))
			}
			conn.Close()
		}
		open, err := net.Dial("tcp", board.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		io.WriteString(open, "x")
		if err := errors.Join(board.Close(), board.Close()); err != nil {
			t.Error(err)
		}
		if _, err := open.Read(make([]byte, 1)); err == nil {
			t.Error("a connection of a closed forwarding lives on")
		}
		if _, err := net.Dial("tcp", board.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a closed forwarding listens: %v", err)
		}
	})
}

func TestDialErrors(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name, addr string
		ctx        context.Context
		rank       int
		want       error
	}{
		{"nothing listens", "127.0.0.1:" + deadPort(t), t.Context(), 0, gputrain.ErrUnavailable},
		{"nothing listens, as for a direct connection", ":" + deadPort(t), t.Context(), 0, syscall.ECONNREFUSED},
		{"no such rank", "127.0.0.1:1", t.Context(), 1, gputrain.ErrInvalid},
		{"a negative rank", "127.0.0.1:1", t.Context(), -1, gputrain.ErrInvalid},
		{"no port", "127.0.0.1", t.Context(), 0, gputrain.ErrInvalid},
		{"a name for a port", "127.0.0.1:http", t.Context(), 0, gputrain.ErrInvalid},
		{"an option for a host", "-oX:1", t.Context(), 0, gputrain.ErrInvalid},
		{"a context that has ended", "127.0.0.1:1", ctx, 0, context.Canceled},
	} {
		if conn, err := pool.Dial(tt.ctx, tt.rank, tt.addr); conn != nil || !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for _, tt := range []struct {
		name, local, remote string
		rank                int
	}{
		{"no local port", "127.0.0.1", ":1", 0}, {"no remote port", ":0", "localhost", 0}, {"a negative rank", ":0", ":1", -1},
	} {
		if _, err := pool.Forward(t.Context(), tt.local, tt.rank, tt.remote); !errors.Is(err, gputrain.ErrInvalid) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, err := pool.Forward(ctx, ":0", 0, ":1"); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	board, err := pool.Forward(t.Context(), ":0", 0, ":1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Forward(t.Context(), board.Addr().String(), 0, ":1"); !errors.Is(err, gputrain.ErrUnavailable) {
		t.Errorf("a port that is taken: %v", err)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", board.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a forwarding of a closed pool listens: %v", err)
	}
	_, dialErr := pool.Dial(t.Context(), 0, ":1")
	_, forwardErr := pool.Forward(t.Context(), ":0", 0, ":1")
	shellErr := pool.Shell(t.Context(), 0, nil, nil, nil)
	for name, err := range map[string]error{"Dial": dialErr, "Forward": forwardErr, "Shell": shellErr, "WriteSSHConfig": pool.WriteSSHConfig(t.TempDir() + "/c")} {
		if !errors.Is(err, gputrain.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}

// A connection that cannot be led on is reset, and an event has the reason.
func TestForwardReportsFailures(t *testing.T) {
	failures := make(chan error, 10)
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithEvents(func(e gputrain.Event) {
		if e.State == "forward" {
			failures <- e.Err
		}
	}))
	board, err := pool.Forward(t.Context(), ":0", 0, ":"+deadPort(t))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", board.Addr().String())
	if err == nil { // it may be reset before it is there
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ends with %v", err)
	}
	if err := <-failures; !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the event has %v", err)
	}
}

// A forwarding survives a cut of the node's connection: open connections are reset, and new ones wait.
func TestForwardOverCuts(t *testing.T) {
	h := e2etest.NewHost(t)
	pool := e2etest.OpenHosts(t, gputrain.Spec{Concurrency: 2}, nil, h)
	at := repeater(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	board, err := pool.Forward(ctx, "localhost:0", 0, at)
	if err != nil {
		t.Fatal(err)
	}
	open, err := net.Dial("tcp", board.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	dialed, err := pool.Dial(t.Context(), 0, at)
	if err != nil {
		t.Fatal(err)
	}
	defer dialed.Close()
	for _, conn := range []net.Conn{dialed, open} { // until it is answered, the node may not have connected yet
		io.WriteString(conn, "x")
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	h.Link.Refuse(true)
	h.Link.Cut()
	if got, err := io.ReadAll(dialed); err == nil || len(got) > 0 {
		t.Errorf("Dial's connection ended with %q, %v", got, err)
	}
	if _, err := io.ReadAll(open); err == nil {
		t.Error("a connection that was cut ended like one that was closed")
	}
	next, err := net.Dial("tcp", board.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	h.Link.Refuse(false)
	if got := exchange(t, next, "after the cut"); got != "after the cut" {
		t.Errorf("got %q", got)
	}
	cancel()
	if !e2etest.Settles(func() bool {
		conn, err := net.Dial("tcp", board.Addr().String())
		if err == nil {
			conn.Close()
		}
		return err != nil
	}) {
		t.Error("the forwarding has outlived its context")
	}
	board.Close()
}

// A node that is given up ends what waits for its connection.
func TestDialOfANodeThatIsGivenUp(t *testing.T) {
	hosts := []*e2etest.OwnHost{e2etest.NewHost(t), e2etest.NewHost(t)}
	pool := e2etest.OpenHosts(t, gputrain.Spec{}, nil, hosts...)
	hosts[1].Link.Refuse(true)
	hosts[1].Link.Cut()
	e2etest.Until(t, "node 1 is unreachable", func() bool { return pool.Nodes()[1].State == gputrain.NodeUnreachable })
	ended := make(chan error, 2)
	go func() {
		_, err := pool.Dial(t.Context(), 1, "127.0.0.1:1")
		ended <- err
	}()
	go func() { ended <- pool.Shell(t.Context(), 1, nil, nil, nil) }()
	go pool.Resize(1)
	for range 2 {
		if err := <-ended; !errors.Is(err, gputrain.ErrNodeLost) && !errors.Is(err, gputrain.ErrInvalid) { // it comes too late, and there is no node 1
			t.Errorf("it ended with %v", err)
		}
	}
	hosts[1].Link.Refuse(false)
}

// A server that forbids forwarding and terminals.
func TestServerThatForbids(t *testing.T) {
	home := t.TempDir()
	srv := opensshtest.Start(t, opensshtest.Config("SetEnv HOME="+home, "AllowTcpForwarding no", "PermitTTY no"))
	host := ssh.Host{Addr: srv.Addr, User: srv.User, KeyFile: srv.KeyFile, HostKey: xssh.FingerprintSHA256(srv.HostKey)}
	pool := e2etest.OpenOwn(t, ssh.Config{Hosts: []ssh.Host{host}}, gputrain.Spec{Nodes: 1, Concurrency: 2})
	conn, err := pool.Dial(t.Context(), 0, echo(t, pool))
	if err != nil {
		t.Fatal(err)
	}
	if got := exchange(t, conn, "by a program of the node"); got != "by a program of the node" {
		t.Errorf("got %q", got)
	}
	conn.Close()
	if _, err := pool.Dial(t.Context(), 0, ":"+deadPort(t)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nothing listens: %v", err)
	}
	s := newScreen(t)
	if err := pool.Shell(t.Context(), 0, s.tty, s.tty, nil); !errors.Is(err, gputrain.ErrUnsupported) || !strings.Contains(err.Error(), "PermitTTY") {
		t.Errorf("a shell on a terminal: %v", err)
	}
	if err := pool.Shell(t.Context(), 0, strings.NewReader("true\n"), nil, nil); err != nil {
		t.Errorf("a shell with pipes: %v", err)
	}
}

// The end of a forwarding, and of a shell, does not wait for a network that is stuck.
func TestEndsOverAStuckNetwork(t *testing.T) {
	h := e2etest.NewHost(t)
	pool := e2etest.OpenHosts(t, gputrain.Spec{Concurrency: 2}, nil, h)
	at := echo(t, pool)
	board, err := pool.Forward(t.Context(), ":0", 0, at)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", board.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in, keys := io.Pipe()
	defer keys.Close()
	seen, out := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- pool.Shell(ctx, 0, in, out, nil) }()
	io.WriteString(keys, "echo ready\n")
	if _, err := io.ReadFull(seen, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	dials := h.Link.Dials()
	h.Link.Blackhole(true)
	io.WriteString(conn, "lost")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the shell ended with %v", err)
	}
	board.Close()
	// Otherwise the connection was found dead first, and another one is being made.
	if now := h.Link.Dials(); now != dials {
		t.Errorf("the ends waited until the connection was given up: %d connections, and then %d", dials, now)
	}
	h.Link.Blackhole(false)
}
