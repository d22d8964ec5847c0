//go:build unix

package sshd

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pkg/sftp"
	"go.uber.org/goleak"
	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/internal/test/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newKey(t testing.TB) (ed25519.PrivateKey, xssh.Signer) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := xssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, signer
}

// A testServer is a server with its login key and the configuration of a client that trusts it.
type testServer struct {
	*Server
	dir    string
	key    ed25519.PrivateKey
	config *xssh.ClientConfig
}

func newServer(t testing.TB, edit ...func(*Config)) *testServer {
	t.Helper()
	_, host := newKey(t)
	key, signer := newKey(t)
	cfg := Config{
		HostKey:        host,
		AuthorizedKeys: []xssh.PublicKey{signer.PublicKey()},
		Dir:            t.TempDir(),
		Env:            []string{"PATH=" + os.Getenv("PATH"), "FROM_CONFIG=c"},
	}
	for _, e := range edit {
		e(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &testServer{s, cfg.Dir, key, &xssh.ClientConfig{
		User:            "anyone",
		Auth:            []xssh.AuthMethod{xssh.PublicKeys(signer)},
		HostKeyCallback: xssh.FixedHostKey(host.PublicKey()),
	}}
}

func (s *testServer) connect(t testing.TB, nc net.Conn, err error) *xssh.Client {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	conn, channels, requests, err := xssh.NewClientConn(nc, "node", s.config)
	if err != nil {
		t.Fatal(err)
	}
	client := xssh.NewClient(conn, channels, requests)
	t.Cleanup(func() { client.Close(); client.Wait() })
	return client
}

func (s *testServer) client(t testing.TB) *xssh.Client {
	t.Helper()
	nc, err := s.Dial()
	return s.connect(t, nc, err)
}

func open(t testing.TB, c *xssh.Client) *xssh.Session {
	t.Helper()
	sn, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sn.Close() })
	return sn
}

func TestExec(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	tests := []struct {
		name, command, stdin string
		stdout, stderr       string
		code                 int
		signal               string
		env                  [][2]string
	}{
		{name: "output apart", command: "echo out; echo err >&2", stdout: "out\n", stderr: "err\n"},
		{name: "exit code", command: "exit 42", code: 42},
		{name: "not found", command: "exec /no/such/program 2>/dev/null", code: 127},
		{name: "signal", command: "kill -TERM $$", signal: "TERM"},
		{name: "signal outside the RFC", command: "kill -BUS $$", signal: "BUS"},
		{name: "stdin to its end", command: "cat; echo end", stdin: "a\x00b\xff", stdout: "a\x00b\xffend\n"},
		{name: "stdin unread", command: "echo done", stdin: strings.Repeat("x", 1<<20), stdout: "done\n"},
		{name: "stdin closed by the program", command: "exec <&-; echo done", stdin: strings.Repeat("x", 8<<20), stdout: "done\n"},
		{name: "home", command: `[ "$HOME" = "$PWD" ] && echo "$FROM_CONFIG"`, stdout: "c\n"},
		{name: "environment", command: `printf %s "$A"`, stdout: "x=1\n'y'", env: [][2]string{{"A", "x=1\n'y'"}}},
		{name: "nothing inherited", command: `printf %s "$GPUTRAIN_SSHD_SECRET"`},
		{name: "own process group", command: `ps -o pid=,pgid= -p $$ | { read p g; [ "$p" = "$g" ] && echo own; }`, stdout: "own\n"},
		{name: "NUL", command: "echo a\x00b", stderr: "sshd: cannot start the command: fork/exec /bin/sh: invalid argument\n", code: 255},
	}
	t.Setenv("GPUTRAIN_SSHD_SECRET", "hunter2")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sn := open(t, c)
			var stdout, stderr bytes.Buffer
			sn.Stdout, sn.Stderr = &stdout, &stderr
			stdin, _ := sn.StdinPipe() // sn.Stdin would make unread input an error
			go func() {
				io.WriteString(stdin, tt.stdin)
				stdin.Close()
			}()
			for _, v := range tt.env {
				if err := sn.Setenv(v[0], v[1]); err != nil {
					t.Fatal(err)
				}
			}
			err := sn.Run(tt.command)
			var exit *xssh.ExitError
			errors.As(err, &exit)
			switch {
			case tt.code == 0 && tt.signal == "":
				if err != nil {
					t.Error(err)
				}
			case exit == nil:
				t.Errorf("error %v; want code %d, signal %q", err, tt.code, tt.signal)
			case tt.signal != exit.Signal() || tt.signal == "" && exit.ExitStatus() != tt.code:
				t.Errorf("ended with code %d, signal %q; want %d, %q", exit.ExitStatus(), exit.Signal(), tt.code, tt.signal)
			}
			if stdout.String() != tt.stdout || stderr.String() != tt.stderr {
				t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	sn := open(t, c)
	for _, name := range []string{"", "A=B", "A\x00"} {
		if sn.Setenv(name, "v") == nil {
			t.Errorf("a variable named %q was accepted", name)
		}
	}
	if sn.RequestSubsystem("nonsense") == nil {
		t.Error("an unknown subsystem was accepted")
	}
	for _, kind := range []string{"env", "exec", "subsystem", "signal", "pty-req", "window-change"} {
		if ok, err := sn.SendRequest(kind, true, []byte{1, 2}); ok || err != nil {
			t.Errorf("malformed %s: accepted %v, %v", kind, ok, err)
		}
	}
	if err := sn.Start("cat"); err != nil {
		t.Fatal(err)
	}
	if ok, _ := sn.SendRequest("exec", true, xssh.Marshal(execRequest{"true"})); ok {
		t.Error("a second program was accepted")
	}
	if _, _, err := c.OpenChannel("direct-tcpip", nil); err == nil {
		t.Error("a malformed request to forward was accepted")
	}
	if ok, _, err := c.SendRequest("keepalive@openssh.com", true, nil); ok || err != nil {
		t.Errorf("keepalive: %v, %v; want an answer", ok, err)
	}
}

func TestShellReadsStdin(t *testing.T) {
	sn := open(t, newServer(t).client(t))
	var out bytes.Buffer
	sn.Stdin, sn.Stdout = strings.NewReader("x=4\necho $((x * 10 + 2))\nexit 3\n"), &out
	if err := sn.Shell(); err != nil {
		t.Fatal(err)
	}
	var exit *xssh.ExitError
	if err := sn.Wait(); !errors.As(err, &exit) || exit.ExitStatus() != 3 || out.String() != "42\n" {
		t.Errorf("%v, output %q", err, out.String())
	}
}

func TestSignalReachesTheGroup(t *testing.T) {
	sn := open(t, newServer(t).client(t))
	out, _ := sn.StdoutPipe()
	if err := sn.Start("sleep 1000 & echo ready; wait; echo not reached"); err != nil {
		t.Fatal(err)
	}
	io.ReadFull(out, make([]byte, len("ready\n")))
	if err := sn.Signal(xssh.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The sleep holds stdout too: the end of stdout proves that both processes are gone.
	rest, _ := io.ReadAll(out)
	var exit *xssh.ExitError
	if err := sn.Wait(); !errors.As(err, &exit) || exit.Signal() != "KILL" || len(rest) > 0 {
		t.Errorf("%v, then %q", err, rest)
	}
}

func TestGrandchildDoesNotHoldTheSession(t *testing.T) {
	for _, hold := range []string{"sleep 1000", "cat /dev/zero"} { // a silent one, and one that never stops writing
		s := newServer(t)
		fifo(t, s.dir)
		sn := open(t, s.client(t))
		var out bytes.Buffer
		sn.Stdout = &out
		err := sn.Run("sh -c 'echo $$; : >fifo; exec " + hold + "' & : <fifo; head -c 60000 /dev/zero | tr '\\0' y; exit 0")
		if err != nil {
			t.Error(err)
		}
		if n := bytes.Count(out.Bytes(), []byte("y")); n != 60000 {
			t.Errorf("%d bytes of the ended program's output arrived", n)
		}
		if pid := firstNumber(out.Bytes()); pid > 0 {
			syscall.Kill(pid, syscall.SIGKILL)
		} else {
			t.Errorf("no process id in %.40q", out.String())
		}
	}
}

// firstNumber returns the first number in a text.
func firstNumber(b []byte) int {
	for _, f := range strings.FieldsFunc(string(b), func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(f); err == nil {
			return n
		}
	}
	return 0
}

func TestHalfClose(t *testing.T) {
	c := newServer(t).client(t)
	// The program closes its output and still reads input.
	sn := open(t, c)
	in, _ := sn.StdinPipe()
	out, _ := sn.StdoutPipe()
	if err := sn.Start(`echo out; exec >&- 2>&-; read code; exit "$code"`); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(out); string(got) != "out\n" || err != nil {
		t.Errorf("output %q, %v", got, err)
	}
	io.WriteString(in, "7\n")
	var exit *xssh.ExitError
	if err := sn.Wait(); !errors.As(err, &exit) || exit.ExitStatus() != 7 {
		t.Error(err)
	}
	// The client closes its input and still reads output.
	sn = open(t, c)
	sn.Stdin = strings.NewReader("in")
	if got, err := sn.Output("cat >/dev/null; echo late"); string(got) != "late\n" || err != nil {
		t.Errorf("output %q, %v", got, err)
	}
}

func TestBulk(t *testing.T) {
	sn := open(t, newServer(t).client(t))
	const size = 16 << 20
	data := bytes.Repeat([]byte("0123456789abcde\n"), size/16)
	sn.Stdin = bytes.NewReader(data)
	var errs bytes.Buffer
	sn.Stderr = &errs
	out, err := sn.Output("tee /dev/stderr")
	if err != nil || !bytes.Equal(out, data) || !bytes.Equal(errs.Bytes(), data) {
		t.Errorf("%v; %d and %d bytes came back of %d, or differ", err, len(out), errs.Len(), size)
	}
}

func TestMaxSessions(t *testing.T) {
	s := newServer(t, func(c *Config) { c.MaxSessions = 2 })
	c := s.client(t)
	first, second := open(t, c), open(t, c)
	_, err := c.NewSession()
	var refused *xssh.OpenChannelError
	if !errors.As(err, &refused) || refused.Reason != xssh.ConnectionFailed || refused.Message != "open failed" {
		t.Errorf("third session: %v", err)
	}
	open(t, s.client(t)) // the limit is per connection
	first.Close()
	second.Close()
	for { // a closed session counts a moment longer, as in OpenSSH
		if sn, err := c.NewSession(); err == nil {
			sn.Close()
			break
		} else if !errors.As(err, &refused) {
			t.Fatal(err)
		}
	}
}

// fifo makes a named pipe. Opening it waits for the other side, so that a test learns what a
// process does without polling.
func fifo(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCutConnectionKillsNothing(t *testing.T) {
	s := newServer(t)
	path := fifo(t, s.dir)
	nc, err := s.Dial()
	sn := open(t, s.connect(t, nc, err))
	out, _ := sn.StdoutPipe()
	if err := sn.Start("echo ready; cat; echo survived >fifo; exec sleep 1000"); err != nil {
		t.Fatal(err)
	}
	io.ReadFull(out, make([]byte, len("ready\n")))
	nc.Close()
	// The cut ends the program's stdin, and the program goes on.
	if got, err := os.ReadFile(path); string(got) != "survived\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	s.Close() // ends the sleep, or the test would wait for it
}

func TestCutConnectionEndsWriters(t *testing.T) {
	s := newServer(t)
	path := fifo(t, s.dir)
	nc, err := s.Dial()
	sn := open(t, s.connect(t, nc, err))
	out, _ := sn.StdoutPipe()
	if err := sn.Start(`cat /dev/zero; kill -l $? >fifo`); err != nil {
		t.Fatal(err)
	}
	io.ReadFull(out, make([]byte, 1<<20))
	nc.Close()
	if got, err := os.ReadFile(path); string(got) != "PIPE\n" || err != nil {
		t.Errorf("the writer ended with %q, %v", got, err)
	}
}

func TestCloseEndsWhatRuns(t *testing.T) {
	s := newServer(t)
	sn := open(t, s.client(t))
	out, _ := sn.StdoutPipe()
	if err := sn.Start("echo $$; trap '' TERM HUP; sleep 1000; sleep 1000"); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 16)
	n, _ := out.Read(line)
	pid := firstNumber(line[:n])
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d after Close: %v", pid, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := s.Dial(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Dial after Close: %v", err)
	}
}

func TestServe(t *testing.T) {
	s := newServer(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	nc, err := net.Dial("tcp", l.Addr().String())
	out, err := open(t, s.connect(t, nc, err)).Output("echo over TCP")
	if string(out) != "over TCP\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	// A client that never logs in does not keep the server from closing.
	silent, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestLogin(t *testing.T) {
	s := newServer(t)
	_, stranger := newKey(t)
	wrong := *s.config
	wrong.Auth = []xssh.AuthMethod{xssh.PublicKeys(stranger), xssh.Password("x")}
	nc, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, _, _, err := xssh.NewClientConn(nc, "node", &wrong); err == nil {
		t.Error("an unauthorized key could log in")
	}
}

func TestSilentClientIsDropped(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newServer(t)
		client, server := Pipe()
		done := make(chan struct{})
		go func() {
			s.ServeConn(server)
			close(done)
		}()
		io.Copy(io.Discard, client) // ends when the server gives up, after two minutes
		<-done
		client.Close()
	})
}

func TestInBubble(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newServer(t)
		out, err := open(t, s.client(t)).Output("echo bubble")
		if string(out) != "bubble\n" || err != nil {
			t.Errorf("%q, %v", out, err)
		}
	})
}

func TestSFTP(t *testing.T) {
	s := newServer(t)
	c, err := sftp.NewClient(s.client(t), sftp.UseConcurrentWrites(true))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if wd, err := c.Getwd(); wd != s.dir || err != nil {
		t.Errorf("working directory %q, %v", wd, err)
	}
	data := bytes.Repeat([]byte("sftp"), 1<<20)
	f, err := c.Create("file")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadFrom(bytes.NewReader(data)); err != nil {
		t.Error(err)
	}
	f.Close()
	if got, err := os.ReadFile(filepath.Join(s.dir, "file")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes arrived, %v", len(got), err)
	}
	if _, err := c.Stat("missing"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestForwardToUnixSocket(t *testing.T) {
	s := newServer(t)
	dir, err := os.MkdirTemp("", "sshd") // short: a socket's path is limited
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		data, _ := io.ReadAll(nc) // the half-close arrives
		nc.Write(bytes.ToUpper(data))
	}()
	c := s.client(t)
	nc, err := c.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(nc, "hello")
	nc.(interface{ CloseWrite() error }).CloseWrite()
	if got, err := io.ReadAll(nc); string(got) != "HELLO" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	<-done
	if _, err := c.Dial("unix", filepath.Join(dir, "missing")); err == nil {
		t.Error("forwarding to a missing socket succeeded")
	}
}

func TestNewChecksItsConfig(t *testing.T) {
	_, host := newKey(t)
	keys := []xssh.PublicKey{host.PublicKey()}
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o600)
	for want, cfg := range map[string]Config{
		"host key":        {AuthorizedKeys: keys, Dir: t.TempDir()},
		"authorized":      {HostKey: host, Dir: t.TempDir()},
		"not a directory": {HostKey: host, AuthorizedKeys: keys, Dir: file},
		"no such file":    {HostKey: host, AuthorizedKeys: keys, Dir: file + "x"},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want one with %q", err, want)
		}
	}
}

func BenchmarkStdout(b *testing.B) {
	sn := open(b, newServer(b).client(b))
	out, _ := sn.StdoutPipe()
	if err := sn.Start("exec cat /dev/zero"); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 1<<20)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		if _, err := io.ReadFull(out, buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExec(b *testing.B) {
	c := newServer(b).client(b)
	for b.Loop() {
		sn, err := c.NewSession()
		if err != nil {
			b.Fatal(err)
		}
		if err := sn.Run("exit 0"); err != nil {
			b.Fatal(err)
		}
	}
}
