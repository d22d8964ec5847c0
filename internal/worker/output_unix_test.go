//go:build unix

package worker

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/codec"
	"golang.org/x/sys/unix"
)

// metered returns a metered stream, the file that prints to it, and the file with its output.
func metered(t *testing.T, copies bool) (s *meteredStream, printing, shown *os.File) {
	t.Helper()
	in, printing, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	shown, given, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.FcntlInt(given.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	given.Close()
	s = newMeteredStream(in, fd)
	s.copies = copies
	s.mark()
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.run()
		unix.Close(fd)
	}()
	t.Cleanup(func() {
		printing.Close()
		<-over
		in.Close()
		shown.Close()
	})
	return s, printing, shown
}

// counted returns how many bytes were printed to a stream.
func counted(s *meteredStream) int64 {
	return (&outputMeter{streams: [2]*meteredStream{s, newMeteredStream(s.pipe, s.given)}}).printed()[0]
}

// Bytes count as soon as they are printed, even if they are not passed on yet.
func TestMeterCountsAndPassesOn(t *testing.T) {
	for name, copies := range map[string]bool{"moved": false, "copied": true} {
		s, printing, shown := metered(t, copies)
		want, got := []byte(OutputMark), make(chan []byte, 1)
		for i := range 3 { // the two pipes can hold all of this
			p := bytes.Repeat([]byte{byte('a' + i)}, 30_000)
			if _, err := printing.Write(p); err != nil {
				t.Fatal(err)
			}
			want = append(want, p...)
			if n := counted(s); n != int64(30_000*(i+1)) {
				t.Errorf("%s: %d bytes are printed after %d writes", name, n, i+1)
			}
		}
		go func() {
			b, _ := io.ReadAll(shown)
			got <- b
		}()
		for i := range 1000 {
			p := bytes.Repeat([]byte{byte(i)}, 1+i)
			if _, err := printing.Write(p); err != nil {
				t.Fatal(err)
			}
			want = append(want, p...)
			if n := counted(s); n != int64(len(want)-len(OutputMark)) {
				t.Fatalf("%s: %d bytes are printed, and %d are counted", name, len(want)-len(OutputMark), n)
			}
		}
		printing.Close()
		if b := <-got; !bytes.Equal(b, want) {
			t.Errorf("%s: %d bytes came of %d, or others", name, len(b), len(want))
		}
	}
}

// If the given stdout has no reader, the program can still print, and nothing blocks.
func TestMeterWithoutAReader(t *testing.T) {
	for name, copies := range map[string]bool{"moved": false, "copied": true} {
		s, printing, shown := metered(t, copies)
		shown.Close()
		for range 100 {
			if _, err := printing.Write(make([]byte, 10_000)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if n := counted(s); n != 1_000_000 {
			t.Errorf("%s: %d bytes are counted", name, n)
		}
	}
}

// A printer is a daemon whose output the test reads.
type printer struct {
	cmd      *exec.Cmd
	out, err *os.File
	open     OpenFunc
}

func startPrinter(t *testing.T) *printer {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "worker")
	p := &printer{cmd: exec.Command(os.Args[0]), open: func(context.Context) (io.ReadWriteCloser, error) {
		return attachProcess(Env + "=" + AttachMode(socket))
	}}
	p.cmd.Env = append(os.Environ(), Env+"="+ServeMode(socket), "WORKER_TEST_INIT=1")
	for _, s := range []struct {
		ours *(*os.File)
		its  *io.Writer
	}{{&p.out, &p.cmd.Stdout}, {&p.err, &p.cmd.Stderr}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		*s.ours, *s.its = r, w
		t.Cleanup(func() { r.Close() })
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

func dialPrinter(t *testing.T, p *printer) *Client {
	t.Helper()
	c, err := Dial(t.Context(), p.open, Hello{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// The last output of a killed process is not lost, even if the process had not read or copied it yet.
func TestOutputOfAKilledDaemon(t *testing.T) {
	for _, size := range []int{0, 1, 100_000} { // 100,000 bytes are more than one pipe holds, and less than two
		p := startPrinter(t)
		c := dialPrinter(t, p)
		var stats Stats
		if _, err := c.Call(t.Context(), Request{Function: "print", Arg: codec.Body{Head: strconv.AppendInt(nil, int64(size), 10)}, Stats: &stats}); err != nil {
			t.Fatal(err)
		}
		if !stats.Answered || stats.Elapsed <= 0 || stats.Printed != (Printed{int64(size), int64(size)}) {
			t.Errorf("%d bytes: %+v", size, stats)
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		early := "an early word\n" // printed by a package's init, and not counted
		want := early + OutputMark + strings.Repeat("x", size)
		for name, r := range map[string]*os.File{"stdout": p.out, "stderr": p.err} {
			got, err := io.ReadAll(r) // ends when the keeper does
			if err != nil || string(got) != want {
				t.Errorf("%d bytes to %s: %d came, %v: %.60q", size, name, len(got), err, got)
			}
		}
	}
}

// A crash report that is larger than a pipe is complete, although no goroutine reads the pipe then.
func TestOutputOfACrash(t *testing.T) {
	p := startPrinter(t)
	c := dialPrinter(t, p)
	go func() { _, _ = c.Call(t.Context(), Request{Function: "crash"}) }() // ends with the client
	got, err := io.ReadAll(p.err)
	if err != nil || !bytes.Contains(got, []byte("panic: "+strings.Repeat("x", crashBytes))) || !bytes.Contains(got, []byte("goroutine ")) {
		t.Errorf("%d bytes, %v: %.100q", len(got), err, got)
	}
}

// A process that exits right after its first output writes the mark once, before that output.
func TestOutputOfADaemonThatExits(t *testing.T) {
	for range 20 {
		p := startPrinter(t)
		c := dialPrinter(t, p)
		go func() { _, _ = c.Call(t.Context(), Request{Function: "exit"}) }() // ends with the client
		for name, r := range map[string]*os.File{"stdout": p.out, "stderr": p.err} {
			if got, err := io.ReadAll(r); err != nil || string(got) != "an early word\n"+OutputMark+"last words" {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		c.Close()
	}
}
