package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/internal/ssh"
)

const (
	// chunk is the size of a read or write of a file.
	chunk = 256 << 10
	// packet is the size of an SSH packet: smaller writes are gathered.
	packet = 32 << 10
	// spareBytes bounds output that is not read: a start-up file's greeting, or an archive's padding.
	spareBytes = 1 << 20
)

// A command that runs on for closePatience after its session was closed loses its connection: a caller that gives up
// does not wait for a node that does not react.
var closePatience = 3 * time.Second

// errSpare means that a command printed more than spareBytes of unexpected output.
var errSpare = fmt.Errorf("the node sent more than %d bytes that were not asked for", spareBytes)

// stream runs a command on the node. feed writes its stdin and take reads its stdout; either may be nil. If feed or
// take fails on its own, the session is closed without ending the command's input, and that error is returned.
// Otherwise the error is ctx's cause, the node's message about the file, or wraps ssh.ErrDisconnected.
func (r *Remote) stream(ctx context.Context, command, about string, feed func(io.Writer) error, take func(io.Reader) error) error {
	s, err := r.Client.Open(ctx, command)
	if err != nil {
		return err
	}
	defer s.Close()
	giveUp := func() { s.CloseWithin(closePatience) }
	defer context.AfterFunc(ctx, giveUp)()

	var (
		wg            sync.WaitGroup
		said          complaint
		fedErr, taken error
	)
	wg.Go(func() { io.Copy(&said, s.Stderr) })
	wg.Go(func() { fedErr = feedSession(s, feed, giveUp) })
	wg.Go(func() {
		if take != nil {
			taken = take(s)
		}
		if taken == nil || isCut(taken) {
			if n, _ := io.CopyN(io.Discard, s, spareBytes+1); n <= spareBytes {
				return
			}
			taken = errSpare
		}
		giveUp()
		io.Copy(io.Discard, s) // at most a window: the node cannot send more
	})
	wg.Wait()
	err = s.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case fedErr != nil:
		return fedErr
	case taken != nil && (!isCut(taken) || err == nil):
		return taken
	}
	return explain(about, said.String(), err)
}

// feedSession lets feed write the command's stdin, and ends it. It is no error if the command stops reading: its exit
// status has the reason.
func feedSession(s *ssh.Session, feed func(io.Writer) error, giveUp func()) error {
	if feed != nil {
		to := &sink{w: s}
		b := bufio.NewWriterSize(to, packet)
		err := feed(b)
		if err == nil {
			err = b.Flush()
		}
		if err != nil && to.err == nil {
			giveUp() // feed itself failed: the command must not see an end
			return err
		}
	}
	s.CloseWrite()
	return nil
}

// isCut reports whether an error means that a stream ended too early.
func isCut(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// A sink records that writing failed.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		s.err = err
	}
	return n, err
}

// A complaint keeps the beginning of what is written to it: the first message matters.
type complaint struct{ text []byte }

func (t *complaint) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.text = append(t.text, p[:min(len(p), most-len(t.text))]...)
	return len(p), nil
}

func (t *complaint) String() string { return printable.Text(string(t.text)) }
