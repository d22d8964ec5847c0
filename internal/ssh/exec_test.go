package ssh

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

func TestExecBytesBothWays(t *testing.T) {
	s := opensshtest.Start(t)
	c := connect(t, configFor(t, s, s.Addr))
	in := make([]byte, 3<<20+17)
	rand.Read(in)
	var out, errs bytes.Buffer
	if err := c.Exec(inTime(t), "tee /dev/stderr", bytes.NewReader(in), &out, &errs); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), in) || !bytes.Equal(errs.Bytes(), in) {
		t.Fatalf("sent %d bytes, got %d and %d, or they differ", len(in), out.Len(), errs.Len())
	}
}

func TestExecOneWriterForBoth(t *testing.T) {
	s := opensshtest.Start(t)
	c := connect(t, configFor(t, s, s.Addr))
	var both bytes.Buffer
	if err := c.Exec(inTime(t), "for i in 1 2 3 4 5 6 7 8 9; do echo out; echo err >&2; done", nil, &both, &both); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(both.String(), "out\n") + strings.Count(both.String(), "err\n"); got != 18 {
		t.Fatalf("got %q", both.String())
	}
}

func TestExecHowItEnds(t *testing.T) {
	s := opensshtest.Start(t)
	c := connect(t, configFor(t, s, s.Addr))
	for _, tt := range []struct {
		command string
		want    *ExitError
	}{
		{"true", nil},
		{"exit 1", &ExitError{Code: 1}},
		{"exit 255", &ExitError{Code: 255}},
		{"no-such-command-here", &ExitError{Code: 127}},
		{"kill -KILL $$", &ExitError{Code: -1, Signal: "KILL"}},
		{"kill -TERM $$", &ExitError{Code: -1, Signal: "TERM"}},
		{"cat >/dev/null; exit 7", &ExitError{Code: 7}}, // a nil stdin ends
	} {
		err := c.Exec(inTime(t), tt.command, nil, nil, nil)
		var got *ExitError
		if errors.As(err, &got); got == nil && err != nil || (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%q: got %v, want %v", tt.command, err, tt.want)
		}
		if signal := tt.want != nil && tt.want.Signal != ""; IsInterrupted(err) != signal {
			t.Errorf("%q was interrupted: %v", tt.command, !signal)
		}
	}
	if got := (&ExitError{Code: 3}).Error(); got != "remote command exited with status 3" {
		t.Error(got)
	}
	if got := (&ExitError{Code: -1, Signal: "KILL"}).Error(); got != "remote command was ended by signal KILL" {
		t.Error(got)
	}
}

// A tally counts and hashes what is written to it.
type tally struct {
	n    int64
	hash hash.Hash
}

func (w *tally) Write(p []byte) (int, error) {
	w.n += int64(len(p))
	w.hash.Write(p)
	return len(p), nil
}

func TestExecMuchOutputInBoundedMemory(t *testing.T) {
	s := opensshtest.Start(t)
	c := connect(t, configFor(t, s, s.Addr))
	const size = 256 << 20
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	out := &tally{hash: sha256.New()}
	if err := c.Exec(inTime(t), fmt.Sprintf("head -c %d /dev/zero", size), nil, out, nil); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	want := sha256.New()
	io.CopyN(want, zeros{}, size)
	if out.n != size || !bytes.Equal(out.hash.Sum(nil), want.Sum(nil)) {
		t.Fatalf("got %d bytes of %d, or they differ", out.n, size)
	}
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 64<<20 {
		t.Fatalf("the heap grew by %d MiB", grown>>20)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestExecMuchInput(t *testing.T) {
	s := opensshtest.Start(t)
	c := connect(t, configFor(t, s, s.Addr))
	const size = 64 << 20
	var out bytes.Buffer
	if err := c.Exec(inTime(t), "wc -c", io.LimitReader(zeros{}, size), &out, nil); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(out.String()); got != fmt.Sprint(size) {
		t.Fatalf("%s bytes arrived of %d", got, size)
	}
}

func TestExecCommandEndsBeforeItsStdin(t *testing.T) {
	s := opensshtest.Start(t)
	c := connect(t, configFor(t, s, s.Addr))
	r, w := io.Pipe() // blocks, as nothing is written
	defer w.Close()   // otherwise TestMain finds the goroutine that reads it
	if err := c.Exec(inTime(t), "true", r, nil, nil); err != nil {
		t.Fatal(err)
	}
	// Sending more than the command reads is no error either.
	if err := c.Exec(inTime(t), "head -c 1", io.LimitReader(zeros{}, 32<<20), io.Discard, nil); err != nil {
		t.Fatal(err)
	}
}

func TestExecStreamsFail(t *testing.T) {
	s := opensshtest.Start(t)
	c := connect(t, configFor(t, s, s.Addr))
	broken := errors.New("broken")
	if err := c.Exec(inTime(t), "cat", io.MultiReader(strings.NewReader("x"), failing{broken}), nil, nil); !errors.Is(err, broken) {
		t.Errorf("stdin: %v", err)
	}
	if err := c.Exec(inTime(t), "yes", nil, failing{broken}, nil); !errors.Is(err, broken) {
		t.Errorf("stdout: %v", err)
	}
	if err := c.Exec(inTime(t), "yes >&2", nil, nil, failing{broken}); !errors.Is(err, broken) {
		t.Errorf("stderr: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestExecCancelled(t *testing.T) {
	s := opensshtest.Start(t)
	c := connect(t, configFor(t, s, s.Addr))
	for range 12 { // more than the allowed sessions: a cancelled command must release its session
		ctx, cancel := context.WithCancel(inTime(t))
		pid := &pidWriter{then: cancel}
		err := c.Exec(ctx, "echo $$; exec sleep 1000000", nil, pid, nil)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		t.Cleanup(func() { pid.kill(t) })
	}
	if err := c.Exec(inTime(t), "true", nil, nil, nil); err != nil {
		t.Fatal(err)
	}
}

// A trigger fires at the first write.
type trigger struct{ fire func() }

func (w *trigger) Write(p []byte) (int, error) { w.fire(); return len(p), nil }

// A pidWriter records the process ID that is written to it, and then calls a function.
type pidWriter struct {
	text bytes.Buffer
	then func()
}

func (w *pidWriter) Write(p []byte) (int, error) {
	w.text.Write(p)
	if bytes.HasSuffix(p, []byte("\n")) {
		w.then()
	}
	return len(p), nil
}

// kill ends the process, which outlived its closed session.
func (w *pidWriter) kill(t *testing.T) {
	pid, err := strconv.Atoi(strings.TrimSpace(w.text.String()))
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Errorf("the command did not outlive its session: %v", err)
	}
}

func TestSessionConversation(t *testing.T) {
	s := opensshtest.Start(t)
	c := connect(t, configFor(t, s, s.Addr))
	session, err := c.Open(inTime(t), "cat; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for _, line := range []string{"one\n", "two\n"} {
		io.WriteString(session, line)
		got := make([]byte, len(line))
		if _, err := io.ReadFull(session, got); err != nil || string(got) != line {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	session.CloseWrite()
	var exit *ExitError
	for range 2 {
		if err := session.Wait(); !errors.As(err, &exit) || exit.Code != 3 {
			t.Fatalf("got %v", err)
		}
	}
}

func TestSessionClose(t *testing.T) {
	s := opensshtest.Start(t)
	c := connect(t, configFor(t, s, s.Addr))
	session, err := c.Open(inTime(t), "cat")
	if err != nil {
		t.Fatal(err)
	}
	session.Close()
	if err := session.Wait(); err != nil && !errors.Is(err, ErrSessionClosed) {
		t.Fatalf("got %v", err)
	}
	session.Close()
}

func TestSFTP(t *testing.T) {
	s := opensshtest.Start(t)
	c := connect(t, configFor(t, s, s.Addr))
	for range 12 { // more than the allowed sessions: Close releases them
		files, err := c.SFTP(inTime(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "file")
		f, err := files.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, 1<<20+3)
		rand.Read(want)
		if _, err := f.ReadFrom(bytes.NewReader(want)); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if got, _ := os.ReadFile(path); !bytes.Equal(got, want) {
			t.Fatal("the bytes that arrived differ")
		}
		r, err := files.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var back bytes.Buffer
		if _, err := r.WriteTo(&back); err != nil || !bytes.Equal(back.Bytes(), want) {
			t.Fatalf("the bytes that came back differ: %v", err)
		}
		r.Close()
		if err := files.Close(); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
}
