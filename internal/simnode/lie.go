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

// Lie returns a Run of a node that lies, for tests: tell is called with each line that an honest node would send, and
// with a function that sends a line. Lines that tell does not send are dropped. Output in 'O' frames passes unchanged.
func (n *Node) Lie(tell func(line string, say func(string))) func(context.Context, sshd.Program) int {
	return func(ctx context.Context, p sshd.Program) int {
		p.Stdout = &liar{w: p.Stdout, tell: tell}
		return n.Run(ctx, p)
	}
}

// A liar splits a node's output into lines.
type liar struct {
	w    io.Writer
	tell func(line string, say func(string))

	mu   sync.Mutex
	held []byte
	raw  int // bytes left of an 'O' frame
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

// Close ends the session, like closing the writer below.
func (l *liar) Close() error {
	if c, ok := l.w.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
