package simnode

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/sshd"
)

// Lie returns a Run of a node that lies, for tests: tell is given each line of what an
// honest node says to a program, and a function that says something. What it does not
// say is not said. Output in 'O' frames passes as it is.
func (n *Node) Lie(tell func(line string, say func(string))) func(context.Context, sshd.Program) int {
	return func(ctx context.Context, p sshd.Program) int {
		p.Stdout = &liar{w: p.Stdout, tell: tell}
		return n.Run(ctx, p)
	}
}

// A liar takes what a node says apart into lines.
type liar struct {
	w    io.Writer
	tell func(line string, say func(string))

	mu   sync.Mutex
	held []byte
	raw  int // bytes of an 'O' frame that follow
}

func (l *liar) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, b...)
	var out bytes.Buffer
	for len(l.held) > 0 {
		if l.raw > 0 {
			n := min(l.raw, len(l.held))
			out.Write(l.held[:n])
			l.held, l.raw = l.held[n:], l.raw-n
			continue
		}
		line, rest, whole := bytes.Cut(l.held, []byte("\n"))
		if !whole {
			break
		}
		if words := strings.Fields(string(line)); len(words) == 5 && words[0] == "O" {
			l.raw, _ = strconv.Atoi(words[4])
		}
		l.tell(string(line), func(s string) { out.WriteString(s + "\n") })
		l.held = rest
	}
	if _, err := l.w.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close ends the session, as closing what it writes to does.
func (l *liar) Close() error {
	if c, ok := l.w.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
