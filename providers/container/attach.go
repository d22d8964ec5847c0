package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// An attachment is a container that was started with its output followed and its
// standard input held. Its owner calls detach.
type attachment struct {
	stdin  io.WriteCloser
	cancel context.CancelFunc
	ended  chan struct{} // closed when the engine's command has ended
	output *watcher
}

// errEnded means that the container ended before it said what it was to say.
var errEnded = errors.New("the container ended")

// start starts a created container, hands it a script on its standard input, and
// returns once the container has printed marker. Attaching before the start is the
// one way to see the last words of a container that the engine removes at its end.
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
	// A container that ends at once breaks the pipe; its output then says why.
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

// detach lets go of the container. It goes on; its standard input has ended.
func (a *attachment) detach() {
	a.stdin.Close()
	a.cancel()
	<-a.ended
}

// wait lets the container's standard input end, and waits for its own end.
func (a *attachment) wait(ctx context.Context) {
	a.stdin.Close()
	select {
	case <-a.ended:
	case <-ctx.Done():
	}
	a.detach()
}

// keepOutput is how much of a container's output a watcher holds.
const keepOutput = 16 << 10

// A watcher keeps the end of what is written to it, and looks for the marker.
type watcher struct {
	marker []byte
	seen   chan struct{} // closed when the marker was written

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
