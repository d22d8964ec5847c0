package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/tools/remotecommand"
)

// exec runs an SSH server for one connection in a pod, and connects to it by the command's standard
// input and output.
func (k *cluster) exec(ctx context.Context, pod string) (net.Conn, error) {
	command, err := k.command(pod, "sh", runFolder+"/sshd", "-i")
	if err != nil {
		return nil, err
	}
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	said := &tail{}
	done := make(chan error, 1)
	go func() {
		err := command.StreamWithContext(life, remotecommand.StreamOptions{Stdin: theirIn, Stdout: theirOut, Stderr: said})
		if err == nil {
			err = io.EOF
		}
		theirIn.CloseWithError(err)
		theirOut.CloseWithError(err)
		done <- err
	}()
	end := func() {
		in.Close() // the server ends, and the command with it
		out.Close()
		select {
		case <-done:
		case <-time.After(endSeconds * time.Second):
		}
		cancel()
	}
	// The server speaks first. If it is silent, the command's other output has the reason.
	reader := bufio.NewReaderSize(out, 64<<10)
	stop := context.AfterFunc(ctx, cancel)
	_, err = reader.Peek(1)
	if stop(); err != nil {
		end()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, unreached("Reach exec needs the right to create pods/exec", errors.Join(fmt.Errorf("exec in %s: %w", pod, err), said.err()))
	}
	return newStreamConn(pod, reader, in, func(err error) error { return err }, end), nil
}

// command returns a command in the node's container, over WebSocket or, if that is refused, SPDY.
func (k *cluster) command(pod string, args ...string) (remotecommand.Executor, error) {
	u, err := k.podURL(pod, "exec", url.Values{
		"container": {containerName}, "command": args, "stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"},
	})
	if err != nil {
		return nil, err
	}
	overWebSocket, err := remotecommand.NewWebSocketExecutor(k.config(), http.MethodGet, u.String())
	if err != nil {
		return nil, err
	}
	overSPDY, err := remotecommand.NewSPDYExecutor(k.config(), http.MethodPost, u)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(overWebSocket, overSPDY, isNotUpgraded)
}

// A tail keeps the beginning of what a command says.
type tail struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := 4<<10 - t.text.Len(); room > 0 {
		t.text.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}

func (t *tail) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := bytes.TrimSpace(t.text.Bytes()); len(text) > 0 {
		return errors.New(string(text))
	}
	return nil
}
