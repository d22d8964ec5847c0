//go:build unix

package program

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"debug/elf"
	bin "encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gputrain/gputrain/internal/crossbuild"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
)

// A fakeNode runs commands with this machine's shell, in folders below dir.
type fakeNode struct {
	dir       string
	commands  int // commands that were run
	sent      [][]byte
	cut       int   // this many commands with input get half of it, and end with loss
	loss      error // by default, ssh.ErrDisconnected
	full      int   // this many commands find the disk full
	leftovers []string
}

func newFakeNode(t *testing.T) (*fakeNode, Node) {
	f := &fakeNode{dir: t.TempDir()}
	return f, Node{
		Provider: "acme", Name: "node-0", Platform: crossbuild.Here(), Addr: "127.0.0.1:22",
		Dir: filepath.Join(f.dir, "bin folder"), Scratch: filepath.Join(f.dir, "scratch"), Exec: f.exec,
		Leftovers: func() []string { return f.leftovers },
		Removed: func(paths []string) {
			f.leftovers = slices.DeleteFunc(f.leftovers, func(s string) bool { return slices.Contains(paths, s) })
		},
	}
}

func (f *fakeNode) exec(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	f.commands++
	if f.full > 0 {
		f.full--
		io.WriteString(stderr, "mkdir: No space left on device\n")
		return &ssh.ExitError{Code: 1}
	}
	cut := false
	if stdin != nil {
		in, err := io.ReadAll(stdin)
		if err != nil {
			return err
		}
		f.sent = append(f.sent, in)
		if cut = f.cut > 0; cut {
			f.cut--
			in = in[:len(in)/2]
		}
		stdin = bytes.NewReader(in)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = &ssh.ExitError{Code: exit.ExitCode()}
	}
	if cut {
		return cmp.Or(f.loss, ssh.ErrDisconnected)
	}
	return err
}

// programsOf returns Programs whose running binary has this content.
func programsOf(t *testing.T, content string) *Programs {
	t.Helper()
	self := filepath.Join(t.TempDir(), "self")
	if err := os.WriteFile(self, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	s := New(nil, nil)
	s.running = func() (string, string, error) {
		digest, err := fileDigest(self)
		return self, digest, err
	}
	return s
}

// wantShipped ships a program, and checks the result on the node.
func wantShipped(t *testing.T, s *Programs, n Node, content string) {
	t.Helper()
	p, err := s.Ship(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(p.Path)
	if err != nil || string(got) != content || p.Path != filepath.Join(n.Dir, p.Digest) {
		t.Errorf("%+v has %d bytes, %v", p, len(got), err)
	}
	if info, err := os.Stat(p.Path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the program's mode is %v, %v", info, err)
	}
	if files, err := os.ReadDir(n.Dir); len(files) != 1 || err != nil {
		t.Errorf("its folder has %v, %v", files, err)
	}
	if _, err := os.Stat(n.Scratch); err != nil {
		t.Error(err)
	}
}

// TestProgramIsShippedOnce ships to a node twice. What dead workers left there is removed.
func TestProgramIsShippedOnce(t *testing.T) {
	content := strings.Repeat("this program ", 10_000)
	s := programsOf(t, content)
	f, n := newFakeNode(t)
	old := filepath.Join(f.dir, "it's an old socket")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.leftovers = []string{old}
	wantShipped(t, s, n, content)
	if _, err := os.Stat(old); err == nil || len(f.leftovers) > 0 {
		t.Errorf("left: %q", f.leftovers)
	}
	wantShipped(t, s, n, content)
	if len(f.sent) != 1 || string(f.sent[0]) != content || f.commands != 3 {
		t.Errorf("it was sent %d times, by %d commands", len(f.sent), f.commands)
	}
}

// TestProgramOverACutConnection cuts connections in the middle of the program.
func TestProgramOverACutConnection(t *testing.T) {
	content := strings.Repeat("this program ", 10_000)
	for _, distant := range []bool{false, true} {
		f, n := newFakeNode(t)
		if f.cut = 2; distant {
			n.Gzip, n.Addr = true, "203.0.113.1:22"
		}
		wantShipped(t, programsOf(t, content), n, content)
		if len(f.sent) != 3 {
			t.Errorf("it was sent %d times", len(f.sent))
		}
		f, n = newFakeNode(t)
		f.cut = 100
		_, err := programsOf(t, content).Ship(t.Context(), n)
		if !errors.Is(err, ssh.ErrDisconnected) || len(f.sent) != shipAttempts {
			t.Errorf("after %d attempts: %v", len(f.sent), err)
		}
		if e, ok := errors.AsType[*driver.Error](err); !ok || e.Provider != "acme" || e.Op != "ship the program to node-0" {
			t.Errorf("the error is %#v", err)
		}
	}
}

// TestProgramIsKilledOnItsWay kills the shell that takes the program, as whoever kills the server does.
func TestProgramIsKilledOnItsWay(t *testing.T) {
	content := strings.Repeat("this program ", 10_000)
	f, n := newFakeNode(t)
	f.cut, f.loss = 2, &ssh.ExitError{Code: -1, Signal: "KILL"}
	wantShipped(t, programsOf(t, content), n, content)
	if len(f.sent) != 3 {
		t.Errorf("it was sent %d times", len(f.sent))
	}
}

// TestProgramIsCompressedOverANetwork ships to two nodes over a network. The program is compressed once.
func TestProgramIsCompressedOverANetwork(t *testing.T) {
	content := strings.Repeat("this program ", 10_000)
	s := programsOf(t, content)
	for range 2 {
		f, n := newFakeNode(t)
		n.Gzip, n.Addr = true, "[2001:db8::1]:22"
		wantShipped(t, s, n, content)
		z, err := gzip.NewReader(bytes.NewReader(f.sent[0]))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(z); string(got) != content || err != nil || len(f.sent[0]) > len(content)/10 {
			t.Errorf("%d bytes were sent, %v", len(f.sent[0]), err)
		}
	}
	for addr, want := range map[string]bool{
		"203.0.113.1:22": true, "gpu.example.com:22": true, "127.0.0.1:22": false, "[::1]:2222": false, "localhost:22": false, "local:22": false, "": false,
	} {
		if got := distant(addr); got != want {
			t.Errorf("%s is distant: %v", addr, got)
		}
	}
}

// TestProgramOnAFullDisk ships to a disk that is full for a while, and to one that stays full.
func TestProgramOnAFullDisk(t *testing.T) {
	content := "this program"
	f, n := newFakeNode(t)
	f.full = 1
	wantShipped(t, programsOf(t, content), n, content)
	bubble.Test(t, func(t *testing.T) {
		f, n := newFakeNode(t)
		f.full = 100
		_, err := programsOf(t, content).Ship(t.Context(), n)
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "ask for a bigger disk") || f.commands != shipAttempts {
			t.Errorf("after %d commands: %v", f.commands, err)
		}
	})
}

// TestProgramThatTheNodeCannotLoad sends binaries for the node's platform that need an interpreter.
func TestProgramThatTheNodeCannotLoad(t *testing.T) {
	for content, want := range map[string]string{
		"#!/bin/sh\n[ $GPUTRAIN_WORKER = probe ] && exit 64\n":      "",
		"#!/bin/sh\necho cannot open libforeign.so >&2\nexit 127\n": "the node cannot run this program (cannot open libforeign.so)",
		"#!/bin/sh\nexit 3\n":      "the node cannot run this program (it ends with exit code 3)",
		"#!/no/such/interpreter\n": "the node cannot run this program (",
		"#!/bin/sh\nexit 126 # as for a file system mounted noexec\n": "",
	} {
		s := programsOf(t, content)
		b, err := s.find(t.Context(), crossbuild.Here())
		if err != nil {
			t.Fatal(err)
		}
		b.interpreter = "/lib/ld.so"
		_, n := newFakeNode(t)
		for range 2 { // the second time, it is already there
			err = s.send(t.Context(), n, b)
			if _, unfit := errors.AsType[*unfitError](err); unfit != (want != "") || unfit && !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q: %v", content, err)
			}
		}
	}
}

// TestBinaryOfTheUser ships to a node of another platform, once with a binary that the user has built for it and once
// without. Without a go command that is an error that names the given binaries.
func TestBinaryOfTheUser(t *testing.T) {
	var header bytes.Buffer
	err := bin.Write(&header, bin.LittleEndian, elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_RISCV), Version: uint32(elf.EV_CURRENT), Ehsize: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	given := filepath.Join(t.TempDir(), "worker")
	if err := os.WriteFile(given, header.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	s := New([]string{given}, &crossbuild.Builder{Context: t.Context(), Go: func(build func()) { go build() }})
	_, n := newFakeNode(t)
	n.Platform = crossbuild.Platform{OS: "linux", Arch: "riscv64"}
	wantShipped(t, s, n, header.String())

	t.Setenv("PATH", t.TempDir()) // without go
	t.Setenv("GOROOT", "")
	n.Platform.Arch = "s390x"
	_, err = s.Ship(t.Context(), n)
	e, ok := errors.AsType[*driver.Error](err)
	if !ok || !errors.Is(err, driver.ErrUnsupported) || e.Provider != "acme" || e.Op == "" {
		t.Fatalf("the error is %#v", err)
	}
	for _, part := range []string{"the node is linux/s390x", "this program is for " + crossbuild.Here().String(), fmt.Sprintf("WithWorkerBinary names %s (linux/riscv64)", given)} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}
