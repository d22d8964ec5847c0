package container

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// overTCP serves the engine at a TCP address, like a remote one, and sets DOCKER_HOST to it
// for the rest of the test.
func overTCP(t *testing.T) {
	t.Helper()
	if os.Getenv("DOCKER_HOST") != "" {
		t.Skip("DOCKER_HOST is set: there is no local engine to put behind TCP")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
	)
	keep := func(c net.Conn) { mu.Lock(); conns = append(conns, c); mu.Unlock() }
	pipe := func(dst, src net.Conn) {
		defer wg.Done()
		_, _ = io.Copy(dst, src)
		_ = dst.(interface{ CloseWrite() error }).CloseWrite()
	}
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", "/var/run/docker.sock")
			if err != nil {
				client.Close()
				continue
			}
			keep(client)
			keep(server)
			wg.Add(2)
			go pipe(server, client)
			go pipe(client, server)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	t.Setenv("DOCKER_HOST", "tcp://"+l.Addr().String())
}

func TestRemoteEngine(t *testing.T) {
	long(t)
	requireDocker(t)
	overTCP(t)
	r := newRig(t, Config{})
	if !r.driver.tunnels() {
		t.Fatal("an engine over TCP is taken for a local one")
	}
	nodes := r.up(2, gputrain.Spec{})
	for _, in := range nodes {
		if in.State != driver.InstanceRunning || in.SSH.Addr != net.JoinHostPort(in.PrivateAddr, "22") || in.PublicAddr != "" {
			t.Errorf("%+v", in)
		}
		if ports := r.do("port", in.ID); ports != "" {
			t.Errorf("published: %s", ports)
		}
	}
	c := r.connect(nodes[0])
	if got := r.sh(c, "hostname"); got != nodes[0].Name {
		t.Errorf("the node is %q", got)
	}
	// Much binary data, in both directions.
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Stdin = io.LimitReader(zeros{}, 8<<20)
	out, err := s.Output("cat")
	if err != nil || len(out) != 8<<20 || strings.Trim(string(out), "\x00") != "" {
		t.Errorf("%d bytes came back: %v", len(out), err)
	}
	// A closed connection leaves no server in the container.
	other := r.connect(nodes[1])
	c.Close()
	other.Close()
	for r.do("exec", nodes[0].ID, "sh", "-c", "pgrep -fc '[s]shd_config -i' || true") != "0" {
		retry.Sleep(t.Context(), settleInterval)
	}

	dial := func(ctx context.Context, id string) error {
		conn, err := r.driver.Dial(ctx, driver.Instance{ID: id})
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := dial(t.Context(), strings.Repeat("0", 64)); err == nil || !strings.Contains(strings.ToLower(err.Error()), "no such container") {
		t.Errorf("dialing a node that is not: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := dial(ctx, nodes[0].ID); !errors.Is(err, context.Canceled) {
		t.Errorf("dialing with an ended context: %v", err)
	}
}

// A program in a container has another 127.0.0.1 than the engine.
func TestDialFallsBackToTheEngine(t *testing.T) {
	long(t)
	requireDocker(t)
	r := newRig(t, Config{})
	in := r.up(1, gputrain.Spec{})[0]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	in.SSH.Addr = l.Addr().String()
	l.Close() // nothing listens there now
	if got := r.sh(r.connect(in), "hostname"); got != in.Name {
		t.Errorf("the node is %q", got)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
