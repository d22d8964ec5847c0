package ssh

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/internal/test/ports"
)

// answerer listens at a port of this machine, and answers each connection with what serve does.
func answerer(t testing.TB, serve func(*net.TCPConn)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				serve(nc.(*net.TCPConn))
			}()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().(*net.TCPAddr).Port
}

// afterAll answers with the whole of what came, once the other end has closed its half.
func afterAll(nc *net.TCPConn) {
	all, _ := io.ReadAll(nc)
	nc.Write(all)
}

// only makes a server that forbids forwarding, and whose commands find only some programs.
func only(t testing.TB, programs ...string) opensshtest.Option {
	t.Helper()
	dir := t.TempDir()
	for _, name := range append(programs, "sh") {
		path, err := exec.LookPath(name)
		if name == "python3" && err == nil { // a version manager's own needs more than its file
			if out, askErr := exec.Command(path, "-c", "import sys; print(sys.executable)").Output(); askErr == nil {
				path = strings.TrimSpace(string(out))
			}
		}
		if err != nil {
			t.Fatalf("no %s on this machine", name)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return opensshtest.Config("SetEnv PATH="+dir+" HOME="+dir, "AllowTcpForwarding no") // a .bashrc may change PATH
}

// The server forwards, or a program of the node takes its place.
func TestDial(t *testing.T) {
	relays := []string{"", "perl", "python3"}
	if exec.Command("nc", "-h").Run() == nil { // not busybox's, which may lack -z
		relays = append(relays, "nc")
	}
	for _, relay := range relays {
		t.Run("by "+cmp.Or(relay, "sshd"), func(t *testing.T) {
			var opts []opensshtest.Option
			if relay != "" {
				opts = append(opts, only(t, relay))
			}
			s := opensshtest.Start(t, opts...)
			c := connect(t, configFor(t, s, s.Addr))

			to, err := c.Dial(inTime(t), "127.0.0.1", answerer(t, afterAll))
			if err != nil {
				t.Fatal(err)
			}
			sent := make([]byte, 3<<20+17)
			rand.Read(sent)
			go func() {
				to.Write(sent)
				to.CloseWrite()
			}()
			got, err := io.ReadAll(to)
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("sent %d bytes, got %d, or others: %v", len(sent), len(got), err)
			}
			to.Close()
			<-to.Ended()

			_, err = c.Dial(inTime(t), "127.0.0.1", ports.Dead(t).Port)
			if !errors.Is(err, ErrRefused) || !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("at a port where nothing listens: %v", err)
			}
			_, err = c.Dial(inTime(t), "no-such-host.invalid", 80)
			if !errors.Is(err, ErrRefused) || errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("at an unknown host: %v", err)
			}
		})
	}
}

// The other end of a relayed connection that is closed here sees its end, though it sends nothing itself.
func TestDialRelayEnds(t *testing.T) {
	s := opensshtest.Start(t, opensshtest.Config("AllowTcpForwarding no"))
	c := connect(t, configFor(t, s, s.Addr))
	over := make(chan struct{})
	to, err := c.Dial(inTime(t), "127.0.0.1", answerer(t, func(nc *net.TCPConn) {
		io.ReadAll(nc)
		close(over)
	}))
	if err != nil {
		t.Fatal(err)
	}
	to.Close()
	wait(t, over)
}

func TestDialWithoutRelay(t *testing.T) {
	s := opensshtest.Start(t, only(t))
	c := connect(t, configFor(t, s, s.Addr))
	if _, err := c.Dial(inTime(t), "127.0.0.1", ports.Dead(t).Port); !errors.Is(err, ErrNoForwarding) {
		t.Errorf("got %v", err)
	}
}

// A cut connection is no end of the data, and Dial waits for the next one.
func TestDialOverCuts(t *testing.T) {
	for name, config := range map[string]string{"forwarded": "AllowTcpForwarding yes", "relayed": "AllowTcpForwarding no"} {
		t.Run(name, func(t *testing.T) {
			s := opensshtest.Start(t, opensshtest.Config(config))
			link := opensshtest.Proxy(t, s.Addr)
			c := connect(t, configFor(t, s, link.Addr))
			port := answerer(t, func(nc *net.TCPConn) {
				nc.Write([]byte("half"))
				io.ReadAll(nc)
			})
			to, err := c.Dial(inTime(t), "127.0.0.1", port)
			if err != nil {
				t.Fatal(err)
			}
			first := make([]byte, 4)
			if _, err := io.ReadFull(to, first); err != nil {
				t.Fatal(err)
			}
			link.Refuse(true)
			link.Cut()
			if n, err := to.Read(first); n != 0 || !errors.Is(err, ErrDisconnected) {
				t.Errorf("read from a cut connection: %d bytes, %v", n, err)
			}
			wait(t, to.Ended())
			to.Close()

			ctx, cancel := context.WithCancel(inTime(t))
			cancel()
			if _, err := c.Dial(ctx, "127.0.0.1", port); !errors.Is(err, context.Canceled) {
				t.Errorf("while the connection is down, with a context that has ended: %v", err)
			}
			link.Refuse(false)
			to, err = c.Dial(inTime(t), "127.0.0.1", port)
			if err != nil {
				t.Fatal(err)
			}
			defer to.Close()
			if _, err := io.ReadFull(to, first); err != nil || string(first) != "half" {
				t.Errorf("over the next connection: %q, %v", first, err)
			}
		})
	}
}

func wait(t testing.TB, over <-chan struct{}) {
	t.Helper()
	select {
	case <-over:
	case <-inTime(t).Done():
		t.Fatal("it did not end")
	}
}

func TestConnDeadlines(t *testing.T) {
	s := opensshtest.Start(t)
	c := connect(t, configFor(t, s, s.Addr))
	told := make(chan string)
	to, err := c.Dial(inTime(t), "127.0.0.1", answerer(t, func(nc *net.TCPConn) {
		for text := range told { // it reads nothing
			nc.Write([]byte(text))
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	nc := Conn(to, "127.0.0.1:1")
	defer nc.Close()
	defer close(told)
	if got := nc.RemoteAddr().String(); got != "127.0.0.1:1" {
		t.Error(got)
	}
	buf := make([]byte, 10)

	nc.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	for range 2 { // it stays in the past
		if n, err := nc.Read(buf); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("after the deadline: %d bytes, %v", n, err)
		}
	}
	var timeout net.Error
	if _, err := nc.Read(buf); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%v is no timeout", err)
	}
	nc.SetReadDeadline(time.Time{})
	told <- "one"
	if n, err := nc.Read(buf); string(buf[:n]) != "one" || err != nil {
		t.Errorf("what came after the deadline: %q, %v", buf[:n], err)
	}
	// A deadline in the past ends a Read that waits.
	ended := make(chan error)
	go func() { _, err := nc.Read(buf); ended <- err }()
	nc.SetReadDeadline(time.Unix(1, 0))
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}

	// The other end reads nothing: at some point a Write waits, and its deadline ends that.
	nc.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	if n, err := nc.Write(make([]byte, 64<<20)); n == 64<<20 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("wrote %d bytes: %v", n, err)
	}
	go func() { _, err := nc.Write([]byte("x")); ended <- err }()
	nc.SetDeadline(time.Time{})
	nc.Close()
	if err := <-ended; err == nil {
		t.Error("a write to a closed connection succeeded")
	}
	if _, err := nc.Read(buf); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// A pipeTunnel is a tunnel in memory, which takes data as the other end reads them.
type pipeTunnel struct{ net.Conn }

func (pipeTunnel) CloseWrite() error      { return nil }
func (pipeTunnel) Ended() <-chan struct{} { return nil }

// A caller that goes on after a write deadline sends each byte once, also if the deadline is moved as it passes.
func TestConnWritesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		nc := Conn(pipeTunnel{near}, "127.0.0.1:1")
		sent := make([]byte, 5*chunkSize/2)
		rand.Read(sent)
		go func() {
			defer near.Close()
			for rest := sent; len(rest) > 0; {
				n, err := nc.Write(rest)
				if rest = rest[n:]; err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%d bytes are left: %v", len(rest), err)
					return
				}
			}
			for { // what the last Write has left behind
				if _, err := nc.Write(nil); !errors.Is(err, os.ErrDeadlineExceeded) {
					return
				}
			}
		}()
		var got bytes.Buffer
		for range 5 {
			synctest.Wait() // the tunnel holds a chunk
			nc.SetWriteDeadline(time.Unix(1, 0))
			nc.SetWriteDeadline(time.Time{})
			if _, err := io.CopyN(&got, far, chunkSize/2); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.Copy(&got, far); err != nil || !bytes.Equal(got.Bytes(), sent) {
			t.Errorf("%d bytes arrived of %d: %v", got.Len(), len(sent), err)
		}
	})
}

func TestOpenTerminal(t *testing.T) {
	s := opensshtest.Start(t)
	c := connect(t, configFor(t, s, s.Addr))
	session, err := c.OpenTerminal(inTime(t), `stty size; echo "$TERM"; trap 'stty size; exit 7' WINCH; echo ready; while :; do sleep 0.01; done`, Terminal{Type: "vt220", Columns: 91, Rows: 37})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	var seen bytes.Buffer
	until := func(text string) {
		t.Helper()
		for b := make([]byte, 100); !strings.Contains(seen.String(), text); {
			n, err := session.Read(b)
			seen.Write(b[:n])
			if err != nil {
				t.Fatalf("%q, and then %v", seen.String(), err)
			}
		}
	}
	until("37 91\r\nvt220\r\nready\r\n")
	if err := session.Resize(60, 20); err != nil {
		t.Fatal(err)
	}
	until("20 60")
	var exit *ExitError
	if err := session.Wait(); !errors.As(err, &exit) || exit.Code != 7 {
		t.Errorf("ended with %v", err)
	}

	none := opensshtest.Start(t, opensshtest.Config("PermitTTY no"))
	c = connect(t, configFor(t, none, none.Addr))
	if _, err := c.OpenTerminal(inTime(t), "true", Terminal{}); !errors.Is(err, ErrNoTerminal) {
		t.Errorf("a server without terminals: %v", err)
	}
	if err := c.Exec(inTime(t), "exit "+strconv.Itoa(0), nil, nil, nil); err != nil {
		t.Errorf("after that: %v", err)
	}
}
