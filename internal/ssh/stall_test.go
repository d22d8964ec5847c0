package ssh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/overdue"
	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/internal/test/bubble"
	xssh "golang.org/x/crypto/ssh"
)

// served runs a test with a client of a server whose commands run executes, in virtual time.
func served(t *testing.T, run func(context.Context, sshd.Program) int, f func(t *testing.T, c *Client)) {
	servedAs(t, run, func(*Config) {}, f)
}

// servedAs is served with a change of the client's configuration.
func servedAs(t *testing.T, run func(context.Context, sshd.Program) int, change func(*Config), f func(t *testing.T, c *Client)) {
	bubble.Test(t, func(t *testing.T) {
		host, _, _, err := sshd.Keys("", "")
		if err != nil {
			t.Fatal(err)
		}
		server, err := sshd.New(sshd.Config{Run: run, HostKey: host, AuthorizedKeys: []xssh.PublicKey{host.PublicKey()}})
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{
			User: "anyone", Auth: []xssh.AuthMethod{xssh.PublicKeys(host)}, HostKey: xssh.FixedHostKey(host.PublicKey()),
			Dial: func(context.Context) (net.Conn, error) { return server.Dial() },
		}
		change(&cfg)
		c := New(cfg)
		defer server.Close()
		defer c.Close()
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(t, c)
	})
}

// A command with endless output is ended once its output exceeds the limit.
func TestAnswerWithoutEnd(t *testing.T) {
	said := 0
	run := func(_ context.Context, p sshd.Program) int {
		for b := make([]byte, 32<<10); ; {
			n, err := p.Stdout.Write(b)
			if said += n; err != nil || said > 64*bounded.Usual {
				return 0
			}
		}
	}
	served(t, run, func(t *testing.T, c *Client) {
		var out bounded.Buffer
		if err := c.Exec(t.Context(), "endless", nil, &out, nil); !errors.Is(err, bounded.ErrTooLong) || len(out.String()) > bounded.Usual {
			t.Errorf("%d bytes are kept, %v", len(out.String()), err)
		}
	})
	if said > 8*bounded.Usual {
		t.Errorf("the command could print %d bytes", said)
	}
}

// A node that reads nothing, or never answers after reading all, has stalled; a slow one has not.
func TestExecMoving(t *testing.T) {
	input := make([]byte, 8<<20) // more than a session's window
	const patience = StallPatience + overdue.Grace
	for name, take := range map[string]int64{"takes nothing": 0, "never answers": int64(len(input))} {
		t.Run(name, func(t *testing.T) {
			run := func(ctx context.Context, p sshd.Program) int {
				io.CopyN(io.Discard, p.Stdin, take)
				<-ctx.Done()
				return 0
			}
			served(t, run, func(t *testing.T, c *Client) {
				begun := time.Now()
				err := c.ExecMoving(t.Context(), "stall", bytes.NewReader(input), nil, nil)
				if took := time.Since(begun); !errors.Is(err, ErrStalled) || took < patience || took > patience+time.Minute {
					t.Errorf("after %v: %v", took, err)
				}
			})
		})
	}
	run := func(_ context.Context, p sshd.Program) int {
		for {
			time.Sleep(10 * time.Second)
			if _, err := io.CopyN(io.Discard, p.Stdin, 64<<10); err != nil {
				return 0
			}
		}
	}
	served(t, run, func(t *testing.T, c *Client) {
		begun := time.Now()
		if err := c.ExecMoving(t.Context(), "slow", bytes.NewReader(input), nil, nil); err != nil || time.Since(begun) < 2*patience {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}

// A node that says a byte now and then, to either output, has stalled as a silent one has; one that sends a long answer slowly
// has not.
func TestAnswerByteByByte(t *testing.T) {
	for name, with := range map[string]struct {
		stdin    io.Reader
		patience time.Duration
	}{"without stdin": {nil, AnswerPatience + AnswerGrace}, "with stdin": {bytes.NewReader([]byte("it")), StallPatience + overdue.Grace}} {
		t.Run(name, func(t *testing.T) {
			run := func(ctx context.Context, p sshd.Program) int {
				for ctx.Err() == nil {
					io.WriteString(p.Stdout, ".")
					io.WriteString(p.Stderr, ".")
					time.Sleep(10 * time.Second)
				}
				return 0
			}
			served(t, run, func(t *testing.T, c *Client) {
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				begun := time.Now()
				err := c.ExecMoving(ctx, "dots", with.stdin, io.Discard, io.Discard)
				if took := time.Since(begun); !errors.Is(err, ErrStalled) || took > with.patience+time.Minute {
					t.Errorf("after %v: %v", took, err)
				}
			})
		})
	}
	run := func(_ context.Context, p sshd.Program) int {
		for range 60 {
			time.Sleep(10 * time.Second)
			p.Stdout.Write(make([]byte, 64<<10))
		}
		return 0
	}
	served(t, run, func(t *testing.T, c *Client) {
		if err := c.ExecMoving(t.Context(), "long", nil, io.Discard, nil); err != nil {
			t.Error(err)
		}
	})
}
