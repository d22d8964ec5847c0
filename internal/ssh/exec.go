package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
)

// Exec has a POSIX shell run a command in a session of its own, and waits for its end. A nil stdin is empty; a nil stdout or stderr
// is discarded. Exec waits for the connection if that is down, and for its turn: five run at once. The error is nil, an
// *ExitError, ctx's own (the session is then closed, but what runs on the node gets no signal), an error of stdin,
// stdout or stderr, or one that wraps ErrDisconnected or ErrNoCommand.
//
// After Exec has returned it writes nothing to stdout and stderr. A blocked Read of stdin may go on until it returns,
// and its data are dropped: give Exec a reader of its own, and close it afterwards.
func (c *Client) Exec(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	select {
	case c.short <- struct{}{}:
		defer func() { <-c.short }()
	case <-ctx.Done():
		return c.waited(ctx)
	case <-c.life.Done():
		return c.Err()
	}
	s, err := c.open(ctx, request{name: "exec", payload: command})
	if err != nil {
		return err
	}
	return s.pump(ctx, stdin, stdout, stderr)
}

// pump connects the session to its three streams until the command has ended, and closes it. Its goroutines end with
// the session, which may be later if the network is stuck: the gates then drop their data.
func (s *Session) pump(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	out := &gate{w: stdout}
	errs := out
	if !isSame(stdout, stderr) {
		errs = &gate{w: stderr}
	}
	defer out.shut()
	defer errs.shut()
	defer s.Close() // first, even if a write is under way
	failed := make(chan error, 3)
	finished := make(chan struct{})
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		if err := s.feed(stdin); err != nil {
			failed <- fmt.Errorf("stdin of a remote command: %w", err)
		}
	}()
	go func() {
		defer close(finished)
		var wg sync.WaitGroup
		for _, p := range []struct {
			name string
			dst  *gate
			src  io.Reader
		}{{"stdout", out, s}, {"stderr", errs, s.Stderr}} {
			wg.Go(func() {
				io.Copy(p.dst, p.src) // Wait has the better error if reading failed
				if err := p.dst.failure(); err != nil {
					failed <- fmt.Errorf("%s of a remote command: %w", p.name, err)
				}
			})
		}
		wg.Wait()
		<-s.done
	}()
	select {
	case <-finished:
	case err := <-failed:
		return err
	case <-ctx.Done():
		if !isClosed(finished) {
			return ctx.Err()
		}
	}
	select {
	case err := <-failed:
		return err
	default:
	}
	if neverBlocks(stdin) {
		<-fed
	}
	return s.Wait()
}

// feed copies stdin to the command. It is no error if the command stops reading. If stdin itself fails, feed returns
// the error and does not end the command's input, which is not complete.
func (s *Session) feed(stdin io.Reader) error {
	if stdin != nil {
		input := &source{r: stdin}
		if _, err := io.Copy(s, input); input.err != nil {
			return input.err
		} else if err != nil {
			return nil
		}
	}
	s.CloseWrite()
	return nil
}

// A source separates errors of reading from those of writing.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// neverBlocks reports whether a reader's Read returns at once, so that Exec can wait for the end of copying it.
func neverBlocks(r io.Reader) bool {
	switch r := r.(type) {
	case nil, *bytes.Reader, *bytes.Buffer, *strings.Reader:
		return true
	case *os.File:
		info, err := r.Stat()
		return err == nil && info.Mode().IsRegular()
	}
	return false
}

// A gate is a writer that can be shut, and then drops what it is given. It lets one write in at a time.
type gate struct {
	mu   sync.Mutex
	w    io.Writer // nil if the gate is shut
	err  error     // the first error of w
	done bool
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.done || g.w == nil {
		return len(p), nil
	}
	n, err := g.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil && g.err == nil {
		g.err = err
	}
	return n, err
}

func (g *gate) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done = true
}

// isSame reports whether stdout and stderr are one writer, which two goroutines must not call at once.
func isSame(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}
