//go:build unix

package worker

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestCopiedStream(t *testing.T) {
	n := startNode(t)
	stdin, client, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer client.Close()
	c, err := Dial(t.Context(), func(context.Context) (io.ReadWriteCloser, error) {
		conn, err := waitForDaemon(n.socket, stdin)
		if err == nil {
			_, err = conn.Write([]byte{streamCopied})
		}
		return conn, err
	}, Hello{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := c.Call(t.Context(), Request{Function: "echo", Arg: body([]byte("x"))}); err != nil || string(got.Head) != "x" {
		t.Errorf("got %q, %v", got.Head, err)
	}
}

// An attach process whose stdout is a file copies, and ends after the daemon's last frame.
func TestAttachCopies(t *testing.T) {
	n := startNode(t)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	attach := self(Env + "=" + AttachMode(n.socket))
	attach.Stdout = out
	in, err := attach.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := attach.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write(frameHead{0, framePing, 1}.append(nil)); err != nil {
		t.Fatal(err)
	}
	if err := attach.Wait(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(out.Name()); err != nil || !bytes.HasPrefix(b, []byte(nodePreamble)) || !bytes.Contains(b, []byte("no hello")) {
		t.Errorf("got %q, %v", b, err)
	}
}

// An attach process that waits for a daemon ends as soon as its client closes stdin, and not only at its time limit. It
// does not read what the client wrote.
func TestAttachEndsWithItsClient(t *testing.T) {
	pipe := func() (stdin, client *os.File, err error) { return os.Pipe() }
	socket := func() (stdin, client *os.File, err error) {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			return nil, nil, err
		}
		syscall.CloseOnExec(fds[1])
		return os.NewFile(uintptr(fds[0]), "stdin"), os.NewFile(uintptr(fds[1]), "client"), nil
	}
	for name, connect := range map[string]func() (stdin, client *os.File, err error){"pipe": pipe, "socket": socket} {
		t.Run(name, func(t *testing.T) {
			stdin, client, err := connect()
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			defer stdin.Close()
			var said bytes.Buffer
			attach := self(Env + "=" + AttachMode(filepath.Join(t.TempDir(), "nobody")))
			attach.Stdin, attach.Stdout, attach.Stderr = stdin, &said, &said
			if err := attach.Start(); err != nil {
				t.Fatal(err)
			}
			_, err = client.Write(appendFrame(nil, frameHello, 0, raw(encodeHello(hello{Client: "x"})), 0))
			client.Close()
			_ = attach.Wait()
			if code := attach.ProcessState.ExitCode(); err != nil || code != exitGone || said.Len() > 0 {
				t.Errorf("it said %q and ended with %d; writing to it: %v", &said, code, err)
			}
		})
	}
}

func TestSocketIsPrivate(t *testing.T) {
	n := startNode(t)
	dial(t, n, Hello{})
	if info, err := os.Stat(n.socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
