package opensshtest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	xssh "golang.org/x/crypto/ssh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo starts a server that returns what it receives, until the test ends, and returns its address.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

func roundTrip(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	must(t, err)
	got := make([]byte, len(text))
	_, err = io.ReadFull(c, got)
	must(t, err)
	if string(got) != text {
		t.Fatalf("got %q", got)
	}
}

func TestProxy(t *testing.T) {
	p := Proxy(t, echo(t))
	c := dial(t, p.Addr)
	roundTrip(t, c, "hello")

	p.Delay(20 * time.Millisecond)
	start := time.Now()
	roundTrip(t, c, "slowly")
	if took := time.Since(start); took < 40*time.Millisecond {
		t.Errorf("a round trip took %v", took)
	}
	p.Delay(0)

	p.Blackhole(true)
	io.WriteString(c, "late")
	c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("through a black hole came %v", err)
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	p.Blackhole(false)
	got := make([]byte, 4)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "late" {
		t.Errorf("after it: %q, %v", got, err)
	}

	p.Cut()
	if _, err := c.Read(got); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a cut connection says %v", err)
	}
	roundTrip(t, dial(t, p.Addr), "again")

	p.CutAfter(10)
	c = dial(t, p.Addr)
	io.WriteString(c, "0123456")
	if n, err := io.Copy(io.Discard, c); err == nil || n > 3 {
		t.Errorf("cut after 10 bytes: 7 went, %d came back, %v", n, err)
	}
	p.CutAfter(3, 4)
	for _, want := range []int64{3, 4} {
		c = dial(t, p.Addr)
		io.WriteString(c, "0123456")
		n, err := io.Copy(io.Discard, c)
		if err == nil || n > want/2 {
			t.Errorf("cut after %d bytes: %d came back, %v", want, n, err)
		}
	}
	roundTrip(t, dial(t, p.Addr), "no more cuts")
	p.Refuse(true)
	if c, err := net.Dial("tcp", p.Addr); err == nil { // or the dial itself already failed
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(got); err == nil {
			t.Error("a refused connection was served")
		}
	}
	if p.Dials() != 7 {
		t.Errorf("%d dials", p.Dials())
	}
}

func TestProxyPassesAnEndOn(t *testing.T) {
	p := Proxy(t, echo(t))
	c := dial(t, p.Addr).(*net.TCPConn)
	io.WriteString(c, "all")
	c.CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "all" {
		t.Errorf("got %q, %v", got, err)
	}
}

// login connects and starts a command that prints its process ID and keeps running.
func login(t *testing.T, s *Server) (c *xssh.Client, pid int) {
	t.Helper()
	c, err := xssh.Dial("tcp", s.Addr, &xssh.ClientConfig{
		User: s.User, Auth: []xssh.AuthMethod{xssh.PublicKeys(s.Signer)}, HostKeyCallback: xssh.FixedHostKey(s.HostKey),
	})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	session, err := c.NewSession()
	must(t, err)
	out, err := session.StdoutPipe()
	must(t, err)
	must(t, session.Start("echo $$; exec sleep 1000000"))
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	pid, err = strconv.Atoi(strings.TrimSpace(line))
	must(t, err)
	t.Cleanup(func() {
		p, err := os.FindProcess(pid)
		must(t, err)
		if err := p.Kill(); err != nil {
			t.Errorf("the command ended with its server: %v", err)
		}
	})
	return c, pid
}

func TestServer(t *testing.T) {
	s := Start(t, DefaultLimits, Config("ClientAliveInterval 100"))
	first, _ := login(t, s)
	s.Restart()
	second, _ := login(t, s)
	if _, _, err := first.SendRequest("keepalive@openssh.com", true, nil); err != nil {
		t.Errorf("a restart cut a connection: %v", err)
	}
	old := s.HostKey
	s.NewHostKey()
	s.Kill()
	for _, c := range []*xssh.Client{first, second} {
		if err := c.Wait(); err == nil {
			t.Error("a connection ended well though its server was killed")
		}
	}
	if _, err := net.Dial("tcp", s.Addr); err == nil {
		t.Error("a killed server accepts connections")
	}
	s.Resume()
	login(t, s)
	if string(old.Marshal()) == string(s.HostKey.Marshal()) {
		t.Error("NewHostKey did not change the host key")
	}
	if !strings.Contains(s.Log(), "Server listening on") {
		t.Errorf("log: %q", s.Log())
	}
}
