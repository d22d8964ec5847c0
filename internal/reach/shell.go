package reach

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/internal/ssh"
	"golang.org/x/term"
)

// The node's half of a shell. It prints marker, reads so many bytes of shell text, which may hold secrets, and executes
// them. On a terminal nothing of that is shown. dd reads no byte too many.
const loginScript = `if [ -t 0 ]; then gt_tty=$(stty -g) && stty raw -echo || exit 1; else gt_tty=; fi
printf '` + `\001gputrain\002'
gt_text=$(dd bs=1 count="$1" 2>/dev/null)
[ -z "$gt_tty" ] || stty "$gt_tty"
unset gt_tty
eval "unset gt_text
$gt_text"`

var marker = []byte("\x01gputrain\x02")

// What a node prints before the marker, as by a .bashrc, is at most greeting bytes.
const greeting = 64 << 10

// Shell runs the user's shell on the node of a visit until it ends: with a terminal if stdin is one, and otherwise with
// pipes. It ends with ctx, the node or the pool, too. The error is nil, an *ssh.ExitError, one that wraps
// ssh.ErrDisconnected, ssh.ErrNoTerminal or driver.ErrNodeLost, or the cause of ctx's end.
func (a *Access) Shell(ctx context.Context, v *Visit, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	defer func() { // the connection of a node that is given up may end first
		if errors.Is(err, ssh.ErrDisconnected) && v.Context.Err() != nil {
			err = lost(v)
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.config.Context, func() { cancel(context.Cause(a.config.Context)) })()
	defer context.AfterFunc(v.Context, func() { cancel(lost(v)) })()
	text, err := v.Login()
	if err != nil {
		return err
	}
	in, terminal := stdin.(*os.File)
	terminal = terminal && term.IsTerminal(int(in.Fd()))
	command, err := v.Command("exec sh -c "+word(loginScript)+" gputrain-shell "+strconv.Itoa(len(text)), terminal)
	if err != nil {
		return err
	}
	if terminal {
		return withTerminal(ctx, v.Client, command, text, in, stdout, stderr)
	}
	s, err := v.Client.Open(ctx, command)
	if err != nil {
		return err
	}
	ctx, why, release := hangUpWith(ctx, s)
	defer release()
	if err := begin(ctx, s, text); err != nil {
		return why(err)
	}
	return why(s.Pump(ctx, stdin, stdout, stderr))
}

// withTerminal connects a terminal of this computer to one on the node.
func withTerminal(ctx context.Context, client *ssh.Client, command, text string, in *os.File, stdout, stderr io.Writer) (err error) {
	screen := in
	if out, ok := stdout.(*os.File); ok && term.IsTerminal(int(out.Fd())) {
		screen = out
	}
	kind := os.Getenv("TERM")
	if kind == "" {
		kind = defaultTerm
	}
	size := func() (columns, rows int) {
		columns, rows, err := term.GetSize(int(screen.Fd()))
		if err != nil {
			return 80, 24
		}
		return columns, rows
	}
	columns, rows := size()
	s, err := client.OpenTerminal(ctx, command, ssh.Terminal{Type: kind, Columns: columns, Rows: rows})
	if err != nil {
		return err
	}
	ctx, why, release := hangUpWith(ctx, s)
	defer release()
	if err := begin(ctx, s, text); err != nil {
		return why(err)
	}
	restore, err := makeRaw(in, screen)
	if err != nil {
		s.Close()
		return fmt.Errorf("the terminal here: %w", err)
	}
	keys := newKeyboard(in)
	defer func() { // in any case, in this order
		keys.stop()
		err = errors.Join(err, restore())
	}()
	resizing, stop := context.WithCancel(ctx)
	var resizes sync.WaitGroup
	resizes.Go(func() {
		watchSize(resizing, func() {
			if c, r := size(); c != columns || r != rows {
				columns, rows = c, r
				s.Resize(c, r)
			}
		})
	})
	defer resizes.Wait()
	defer stop()
	return why(s.Pump(ctx, keys, stdout, stderr))
}

// hangUpWith ends a session with ctx: its command is asked to end first. inner ends after the session. why takes the error of
// the session, and returns the cause of ctx's end in its place if the session was ended.
func hangUpWith(ctx context.Context, s *ssh.Session) (inner context.Context, why func(error) error, release func()) {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		s.End("HUP")
		cancel(context.Cause(ctx))
	})
	why = func(err error) error {
		if err == nil || stop() {
			return err
		}
		<-inner.Done()
		return context.Cause(ctx)
	}
	return inner, why, func() {
		stop()
		cancel(nil)
		s.Close()
	}
}

// begin waits for the marker, and sends the text that starts the shell.
func begin(ctx context.Context, s *ssh.Session, text string) error {
	type result struct {
		before []byte
		err    error
	}
	found := make(chan result, 1)
	go func() {
		before, err := readMarker(s)
		if err == nil {
			_, err = io.WriteString(s, text)
		}
		found <- result{before, err}
	}()
	var r result
	select {
	case r = <-found:
	case <-ctx.Done():
		return context.Cause(ctx) // the session is closed, which ends the goroutine
	}
	if r.err == nil {
		return nil
	}
	defer s.Close()
	if !errors.Is(r.err, io.EOF) {
		return r.err
	}
	said, _ := io.ReadAll(io.LimitReader(s.Stderr, 1000))
	why := s.Wait()
	if exit, ok := errors.AsType[*ssh.ExitError](why); ok {
		return fmt.Errorf("%w: %v: %s", errNoShell, exit, printable.Text(string(bytes.TrimSpace(append(r.before, said...)))))
	}
	return cmp.Or(why, errNoShell)
}

// readMarker reads up to the end of the marker, and no further.
func readMarker(r io.Reader) (before []byte, err error) {
	var b [1]byte
	for !bytes.HasSuffix(before, marker) {
		if len(before) > greeting {
			return before, errNoMarker
		}
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return before, err
		}
		before = append(before, b[0])
	}
	return before, nil
}

var (
	errNoMarker = errors.New("the node starts no shell, and prints something else")
	errNoShell  = errors.New("the node starts no shell")
)

// word returns text that a POSIX shell reads as one word.
func word(s string) string {
	return "'" + string(bytes.ReplaceAll([]byte(s), []byte("'"), []byte(`'\''`))) + "'"
}
