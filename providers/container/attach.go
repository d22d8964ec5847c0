package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// An attachment is a started container whose output is read and whose standard input is held
// open. Its owner calls detach.
type attachment struct {
	stdin  io.WriteCloser
	cancel context.CancelFunc
	ended  chan struct{} // closed when the engine's command has ended
	output *watcher
}

// errEnded means that the container ended before it printed the marker.
var errEnded = errors.New("the container ended")

// start starts a created container, writes a script to its standard input, and returns once the
// container has printed marker. It attaches before the start, because the engine removes the
// container at its end, and its last output with it.
func (e *engine) start(ctx context.Context, id, script, marker string) (*attachment, error) {
	run, cancel := context.WithCancel(ctx)
	cmd := e.command(run, "start", "--attach", "--interactive", id)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	a := &attachment{stdin: stdin, cancel: cancel, ended: make(chan struct{}),
		output: &watcher{marker: []byte(marker), seen: make(chan struct{})}}
	cmd.Stdout, cmd.Stderr = a.output, a.output
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	var ending error
	go func() {
		defer close(a.ended)
		ending = cmd.Wait()
	}()
	// A container that ends at once breaks the pipe; its output then has the reason.
	_, _ = io.WriteString(stdin, script)

	select {
	case <-a.output.seen:
		return a, nil
	case <-a.ended:
	}
	a.detach()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s start: %w", e.dialect, context.Cause(ctx))
	}
	if ending == nil {
		ending = errEnded
	}
	return nil, &commandError{command: e.dialect.String() + " start", stderr: tail(a.output.String()), err: ending}
}

// detach ends the attachment and the container's standard input. The container goes on.
func (a *attachment) detach() {
	a.stdin.Close()
	a.cancel()
	<-a.ended
}

// wait closes the container's standard input and waits for the container's end.
func (a *attachment) wait(ctx context.Context) {
	a.stdin.Close()
	select {
	case <-a.ended:
	case <-ctx.Done():
	}
	a.detach()
}

// keepOutput bounds the output of a container that a watcher keeps.
const keepOutput = 16 << 10

// A watcher keeps the end of its input and looks for the marker.
type watcher struct {
	marker []byte
	seen   chan struct{} // closed at the marker

	mu   sync.Mutex
	held []byte
	done bool
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, p...)
	if !w.done && bytes.Contains(w.held, w.marker) {
		w.done = true
		close(w.seen)
	}
	if n := len(w.held) - keepOutput; n > 0 {
		w.held = append(w.held[:0], w.held[n:]...)
	}
	return len(p), nil
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.held)
}
