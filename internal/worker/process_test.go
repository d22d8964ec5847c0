package worker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/steps"
	"go.uber.org/goleak"
)

var errRegistered = errors.New("registered")

// crashBytes is more than a pipe holds.
const crashBytes = 300_000

// count panics if m is nil.
func count(m map[string]int) { m["x"]++ }

func TestMain(m *testing.M) {
	Register("echo", func(_ context.Context, arg codec.Body, _ *Stream) (codec.Body, error) { return arg, nil })
	Register("hash", onBytes(func(_ context.Context, arg []byte) ([]byte, error) {
		sum := sha256.Sum256(arg)
		return sum[:], nil
	}))
	Register("zeros", onBytes(func(_ context.Context, arg []byte) ([]byte, error) {
		n, err := strconv.Atoi(string(arg))
		return make([]byte, n), err
	}))
	Register("fail", onBytes(func(_ context.Context, arg []byte) ([]byte, error) {
		return nil, fmt.Errorf("bad luck with %s: %w", arg, errRegistered)
	}))
	Register("panic", onBytes(func(context.Context, []byte) ([]byte, error) {
		m := map[string]int(nil)
		count(m)
		return nil, nil
	}))
	Register("nilerror", onBytes(func(context.Context, []byte) ([]byte, error) {
		var err *os.PathError
		return nil, err
	}))
	Register("goexit", onBytes(func(context.Context, []byte) ([]byte, error) { runtime.Goexit(); return nil, nil }))
	Register("meta", onBytes(func(ctx context.Context, _ []byte) ([]byte, error) {
		m, ok := MetaFrom(ctx)
		m.scratch = nil // it would print as an address
		return []byte(fmt.Sprintf("%v %+v", ok, m)), nil
	}))
	Register("wait", onBytes(func(ctx context.Context, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("stopped: %w", ctx.Err())
	}))
	Register("late", onBytes(func(ctx context.Context, arg []byte) ([]byte, error) { <-ctx.Done(); return arg, nil }))
	Register("meet", onBytes(meet))
	Register("stubborn", onBytes(func(_ context.Context, arg []byte) ([]byte, error) { return meet(context.Background(), arg) }))
	Register("steps", onBytes(func(ctx context.Context, arg []byte) ([]byte, error) {
		for i := range 10_000 {
			Report(ctx, steps.Step{N: int64(i), Of: 10_001, Rank: -1})
		}
		got, err := meet(ctx, arg)
		Report(ctx, steps.Step{N: 10_000, Rank: 3, Values: map[string]float64{"loss": 0.5, "a b": 1}})
		return got, err
	}))
	Register("cause", onBytes(func(ctx context.Context, arg []byte) ([]byte, error) {
		_, _ = meet(ctx, arg)
		return fmt.Append(nil, context.Cause(ctx)), nil
	}))
	Register("meetings", onBytes(func(context.Context, []byte) ([]byte, error) {
		return strconv.AppendInt(nil, meetings.Load(), 10), nil
	}))
	Register("peak", onBytes(func(context.Context, []byte) ([]byte, error) {
		b, err := os.ReadFile("/proc/self/status")
		_, after, _ := strings.Cut(string(b), "VmHWM:")
		return []byte(strings.Fields(after)[0]), err
	}))
	Register("items", echoStream)
	Register("flood", func(ctx context.Context, _ codec.Body, s *Stream) (codec.Body, error) {
		for i := 0; s.Send(ctx.Done(), codec.Body{Head: []byte{byte(i)}}); i++ {
		}
		return codec.Body{}, ctx.Err()
	})
	Register("weigh", func(_ context.Context, arg codec.Body, _ *Stream) (codec.Body, error) {
		return codec.Body{Head: []byte(strconv.Itoa(len(arg.Parts[0])))}, nil
	})
	Register("gigabyte", func(context.Context, codec.Body, *Stream) (codec.Body, error) {
		out := make([]byte, 1<<30)
		for i := 0; i < len(out); i += 4096 {
			out[i] = 1 // memory that is not written to would not count
		}
		out[len(out)-1] = 1
		return codec.Body{Head: []byte("x"), Parts: [][]byte{out}}, nil
	})
	Register("scratch", onBytes(func(ctx context.Context, _ []byte) ([]byte, error) {
		m, _ := MetaFrom(ctx)
		dir, err := m.Scratch()
		if _, statErr := os.Stat(dir); err == nil {
			err = statErr
		}
		return []byte(dir), err
	}))
	Register("print", onBytes(func(_ context.Context, arg []byte) ([]byte, error) {
		n, err := strconv.Atoi(string(arg))
		fmt.Print(strings.Repeat("x", n))
		fmt.Fprint(os.Stderr, strings.Repeat("x", n))
		return nil, err
	}))
	Register("crash", onBytes(func(context.Context, []byte) ([]byte, error) {
		go panic(strings.Repeat("x", crashBytes))
		select {}
	}))
	Register("exit", onBytes(func(context.Context, []byte) ([]byte, error) {
		fmt.Fprint(os.Stdout, "last words")
		fmt.Fprint(os.Stderr, "last words")
		os.Exit(3)
		return nil, nil
	}))
	RegisterError("worker_test.errRegistered", errRegistered)

	switch mode := os.Getenv(Env); {
	case os.Getenv("WORKER_TEST_RPC") != "":
		serveRPC()
	case mode == "" && os.Getenv("WORKER_TEST_CLIENT") != "":
		killedClient(os.Getenv("WORKER_TEST_CLIENT"))
	case os.Getenv("WORKER_TEST_INIT") != "" && strings.HasPrefix(mode, "serve:"):
		fmt.Println("an early word")
		fmt.Fprintln(os.Stderr, "an early word")
		Main(mode)
	case os.Getenv("WORKER_TEST_PRINT") != "":
		fmt.Println("Welcome to this machine!")
		Main(mode)
	case mode == "none":
		fmt.Println("a program without Init")
		os.Exit(0)
	case mode != "":
		Main(mode)
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// onBytes returns a handler for bodies that have only a head.
func onBytes(f func(ctx context.Context, arg []byte) ([]byte, error)) Handler {
	return func(ctx context.Context, arg codec.Body, _ *Stream) (codec.Body, error) {
		out, err := f(ctx, arg.Head)
		return codec.Body{Head: out}, err
	}
}

// body returns a body that has only a head.
func body(b []byte) codec.Body { return codec.Body{Head: b} }

// meet connects to an address, to show that the call runs, and returns what it reads there.
func meet(ctx context.Context, arg []byte) ([]byte, error) {
	meetings.Add(1)
	conn, err := net.Dial("tcp", string(arg))
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	answer, err := io.ReadAll(conn)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return answer, err
}

var meetings atomic.Int64

// A meeting is the listener that calls of "meet" connect to.
type meeting struct{ net.Listener }

func newMeeting(t *testing.T) meeting {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return meeting{l}
}

func (m meeting) arg() []byte { return []byte(m.Addr().String()) }

// accept waits until a call runs.
func (m meeting) accept(t *testing.T) net.Conn {
	t.Helper()
	m.Listener.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	conn, err := m.Accept()
	if err != nil {
		t.Fatal("no call has come: ", err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func answer(t *testing.T, conn net.Conn, with string) {
	t.Helper()
	if _, err := io.WriteString(conn, with); err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// A node is a daemon's process and its attach processes.
type node struct {
	t      testing.TB
	socket string
	daemon *exec.Cmd

	mu       sync.Mutex
	attached []*attachment
}

func startNode(t testing.TB) *node {
	t.Helper()
	n := &node{t: t, socket: filepath.Join(t.TempDir(), strings.Repeat("long", 30), "worker")}
	if err := os.Mkdir(filepath.Dir(n.socket), 0o700); err != nil {
		t.Fatal(err)
	}
	n.start()
	t.Cleanup(func() {
		n.kill()
		for _, a := range n.attached {
			a.Close()
		}
	})
	return n
}

func self(env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	return cmd
}

func (n *node) start() {
	n.t.Helper()
	n.daemon = self(Env + "=" + ServeMode(n.socket))
	n.daemon.Stdout = os.Stderr
	if err := n.daemon.Start(); err != nil {
		n.t.Fatal(err)
	}
}

// isUp waits until the daemon serves. A client waits only briefly at a killed daemon's socket.
func (n *node) isUp() {
	n.t.Helper()
	until(n.t, "the daemon", func() bool {
		conn, err := dialSocket(n.socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

func (n *node) kill() {
	n.daemon.Process.Kill()
	n.daemon.Wait()
}

// open starts an attach process with pipes, as sshd does.
func (n *node) open(context.Context) (io.ReadWriteCloser, error) {
	a, err := attachProcess(Env + "=" + AttachMode(n.socket))
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.attached = append(n.attached, a)
	return a, nil
}

// last returns the newest attach process.
func (n *node) last() *attachment {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.attached[len(n.attached)-1]
}

type attachment struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.ReadCloser
	once sync.Once
}

func attachProcess(env ...string) (*attachment, error) {
	a := &attachment{cmd: self(env...)}
	var err error
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if a.out, err = a.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return a, a.cmd.Start()
}

func (a *attachment) Read(p []byte) (int, error)  { return a.out.Read(p) }
func (a *attachment) Write(p []byte) (int, error) { return a.in.Write(p) }

func (a *attachment) Close() error {
	a.once.Do(func() {
		a.in.Close()
		a.out.Close()
		a.cmd.Process.Kill()
		a.cmd.Wait()
	})
	return nil
}

func dial(t testing.TB, n *node, h Hello) *Client {
	t.Helper()
	c, err := Dial(t.Context(), n.open, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Echo is the net/rpc service of the comparison.
type Echo struct{}

// Echo returns its argument.
func (Echo) Echo(arg []byte, result *[]byte) error { *result = arg; return nil }

func serveRPC() {
	if err := rpc.Register(Echo{}); err != nil {
		panic(err)
	}
	rpc.ServeConn(stdio{})
}

type stdio struct{}

func (stdio) Read(p []byte) (int, error)  { return os.Stdin.Read(p) }
func (stdio) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (stdio) Close() error                { return os.Stdin.Close() }

const patience = 2 * time.Minute // for an event that must come, however slow the machine

// until waits until ok returns true.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("did not happen in time: %s", what)
		}
	}
}
