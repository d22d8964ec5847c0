//go:build unix

package worker

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestCopiedStream(t *testing.T) {
	n := startNode(t)
	c, err := Dial(t.Context(), func(context.Context) (io.ReadWriteCloser, error) {
		conn, err := waitForDaemon(n.socket, os.Stdout)
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

// An attach process whose output is a file copies, and ends with the daemon's
// last word.
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

// An attach process that waits for a daemon does so for nobody once its
// client has gone: another one, which began before it, still waits then.
func TestAttachEndsWithItsClient(t *testing.T) {
	mode := Env + "=" + AttachMode(filepath.Join(t.TempDir(), "never"))
	patient, err := attachProcess(mode)
	if err != nil {
		t.Fatal(err)
	}
	defer patient.Close()
	said := make(chan error, 1)
	go func() {
		_, err := patient.Read(make([]byte, 1))
		said <- err
	}()
	time.Sleep(time.Second)
	left, err := attachProcess(mode)
	if err != nil {
		t.Fatal(err)
	}
	left.in.Close()
	left.out.Close()
	if err := left.cmd.Wait(); err == nil {
		t.Error("there is a daemon")
	}
	select {
	case <-said:
		t.Error("it waited as long as one whose client is there")
	default:
		patient.Close()
		<-said
	}
}

func TestSocketIsPrivate(t *testing.T) {
	n := startNode(t)
	dial(t, n, Hello{})
	if info, err := os.Stat(n.socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
