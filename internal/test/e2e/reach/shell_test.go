//go:build unix

package reach

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"golang.org/x/term"
)

func TestShellWithPipes(t *testing.T) {
	hidden := rand.Text()
	spec := gputrain.Spec{Image: gputrain.Image{Env: map[string]string{"GREETING": "it's\n\"here\" $HOME \\", "HIDDEN": hidden}}}
	onEach(t, spec, func(t *testing.T, pool *gputrain.Compute) {
		want, err := pool.Run(gputrain.Script(`pwd; echo "$GREETING"; echo "$GPUTRAIN_POOL $GPUTRAIN_NODE"`))
		if err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		err = pool.Shell(t.Context(), 0, strings.NewReader(`pwd; echo "$GREETING"; echo "$GPUTRAIN_POOL $GPUTRAIN_NODE"
echo complaint >&2
[ -t 0 ] || exit 3`), &out, &errs)
		var failed *gputrain.TaskError
		if !errors.As(err, &failed) || failed.Cause != gputrain.CauseExit || failed.ExitCode != 3 || failed.Node.Rank != 0 {
			t.Errorf("the shell ended with %v", err)
		}
		if out.String() != string(want.Stdout) || errs.String() != "complaint\n" {
			t.Errorf("it printed %q and %q; a task prints %q", out.String(), errs.String(), want.Stdout)
		}
		// The environment may hold secrets: it is in no argument of any process.
		if err := pool.Shell(t.Context(), 0, strings.NewReader(fmt.Sprintf("! grep -ls '[%s]%s' /proc/[0-9]*/cmdline && [ $HIDDEN = %s ]\n", hidden[:1], hidden[1:], hidden)), os.Stderr, nil); err != nil {
			t.Errorf("the environment is among arguments: %v", err)
		}
		if err := pool.Shell(t.Context(), 0, nil, nil, nil); err != nil {
			t.Errorf("an empty stdin: %v", err)
		}
		if err := pool.Shell(t.Context(), 0, strings.NewReader("kill -KILL $$\n"), nil, nil); !errors.As(err, &failed) || failed.Cause != gputrain.CauseSignal || failed.Signal != "KILL" {
			t.Errorf("a shell that is killed: %v", err)
		}
	})
}

// A screen is a terminal of this computer that a test drives.
type screen struct {
	t         *testing.T
	keys, tty *os.File

	mu   sync.Mutex
	seen bytes.Buffer
	more chan struct{}
}

func newScreen(t *testing.T) *screen {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, keys: master, tty: slave, more: make(chan struct{}, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for b := make([]byte, 4096); ; {
			n, err := master.Read(b)
			s.mu.Lock()
			s.seen.Write(b[:n])
			s.mu.Unlock()
			select {
			case s.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { slave.Close(); master.Close(); <-done })
	return s
}

// until waits until the screen has shown a text, and forgets all up to it.
func (s *screen) until(text string) {
	s.t.Helper()
	for {
		s.mu.Lock()
		at := bytes.Index(s.seen.Bytes(), []byte(text))
		if at >= 0 {
			s.seen.Next(at + len(text))
			s.mu.Unlock()
			return
		}
		shown := s.seen.String()
		s.mu.Unlock()
		select {
		case <-s.more:
		case <-s.t.Context().Done():
			s.t.Fatalf("the screen shows %q and not %q", shown, text)
		}
	}
}

func (s *screen) press(keys string) { io.WriteString(s.keys, keys) }

func (s *screen) resize(columns, rows uint16) {
	if err := pty.Setsize(s.keys, &pty.Winsize{Cols: columns, Rows: rows}); err != nil {
		s.t.Fatal(err)
	}
	// The test's process is not in the foreground of this terminal, so the kernel tells it nothing.
	syscall.Kill(os.Getpid(), syscall.SIGWINCH)
}

// state returns the settings of the terminal.
func (s *screen) state() term.State {
	s.t.Helper()
	state, err := term.GetState(int(s.tty.Fd()))
	if err != nil {
		s.t.Fatal(err)
	}
	return *state
}

func TestShellOnATerminal(t *testing.T) {
	t.Setenv("TERM", "vt220")
	spec := gputrain.Spec{Image: gputrain.Image{Env: map[string]string{"GREETING": "hello from the image"}}}
	onEach(t, spec, func(t *testing.T, pool *gputrain.Compute) {
		s := newScreen(t)
		s.resize(91, 37)
		before := s.state()
		ended := make(chan error, 1)
		go func() { ended <- pool.Shell(t.Context(), 0, s.tty, s.tty, nil) }()

		s.press(`stty -echo; PS1=; echo "<$TERM>" "<$GREETING>"; stty size; pwd` + "\r")
		s.until("<vt220> <hello from the image>\r\n37 91\r\n")
		s.until("/work")
		s.resize(60, 20)
		s.press("until [ \"$(stty size)\" = '20 60' ]; do sleep 0.02; done; echo resized\r")
		s.until("resized\r\n")
		s.press("sh -c 'trap \"echo interrupted; exit 1\" INT; echo waiting; while :; do sleep 0.02; done'\r")
		s.until("waiting\r\n")
		s.press("\x03")
		s.until("interrupted\r\n")
		s.press("exit 42\r")
		err := <-ended
		var failed *gputrain.TaskError
		if !errors.As(err, &failed) || failed.Cause != gputrain.CauseExit || failed.ExitCode != 42 {
			t.Errorf("the shell ended with %v", err)
		}
		if s.state() != before {
			t.Error("the terminal was left in raw mode")
		}
		// What is typed now is for the next reader.
		s.press("mine\n")
		line := make([]byte, 10)
		if n, err := s.tty.Read(line); string(line[:n]) != "mine\n" {
			t.Errorf("the next reader gets %q, %v", line[:n], err)
		}

		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { ended <- pool.Shell(ctx, 0, s.tty, s.tty, nil) }()
		s.press("trap '' TERM; echo run''ning; sleep 1000\r")
		s.until("running\r\n")
		enough := errors.New("enough")
		cancel(enough)
		if err := <-ended; !errors.Is(err, enough) {
			t.Errorf("after its context the shell ended with %v", err)
		}
		if s.state() != before {
			t.Error("the terminal was left in raw mode after the end of the context")
		}
	})
}

// The end of the pool, and of its connection, end a shell.
func TestShellEnds(t *testing.T) {
	h := e2etest.NewHost(t)
	pool := e2etest.OpenHosts(t, gputrain.Spec{}, nil, h)
	endShell(t, pool, "by a cut", h.Link.Cut, gputrain.ErrUnavailable)
	endShell(t, pool, "by Close", func() { go pool.Close() }, gputrain.ErrClosed)
}

func endShell(t *testing.T, pool *gputrain.Compute, name string, end func(), want error) {
	t.Helper()
	in, keys := io.Pipe()
	defer keys.Close()
	seen, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- pool.Shell(t.Context(), 0, in, out, nil) }()
	io.WriteString(keys, "echo ready\n")
	if _, err := io.ReadFull(seen, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	end()
	if err := <-ended; !errors.Is(err, want) {
		t.Errorf("%s: the shell ended with %v", name, err)
	}
}
