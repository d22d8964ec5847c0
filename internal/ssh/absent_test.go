package ssh

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
	xssh "golang.org/x/crypto/ssh"
)

func dialError(err error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: err}
}

// TestAbsentPatience checks how long Connect tries if each attempt fails in the same way, in virtual time.
func TestAbsentPatience(t *testing.T) {
	const patience, limit = 5 * time.Second, time.Minute
	unknown := &net.DNSError{Err: "no such host", Name: "gpu1.lab", IsNotFound: true}
	for _, tt := range []struct {
		name     string
		err      func(attempt int) error
		patience time.Duration
		short    bool // AbsentPatience ends it
	}{
		{"refused", func(int) error { return dialError(syscall.ECONNREFUSED) }, patience, true},
		{"no route", func(int) error { return dialError(syscall.EHOSTUNREACH) }, patience, true},
		{"no network", func(int) error { return dialError(syscall.ENETUNREACH) }, patience, true},
		{"unknown name", func(int) error { return dialError(unknown) }, patience, true},
		{"reset", func(int) error { return dialError(syscall.ECONNRESET) }, patience, false},
		{"end", func(int) error { return io.EOF }, patience, false},
		{"refused between resets", func(n int) error {
			if n%3 == 0 {
				return dialError(syscall.ECONNRESET)
			}
			return dialError(syscall.ECONNREFUSED)
		}, patience, false},
		{"refused by a machine that is starting", func(int) error { return dialError(syscall.ECONNREFUSED) }, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				attempts := 0
				c := New(Config{
					Dial:           func(context.Context) (net.Conn, error) { attempts++; return nil, tt.err(attempts) },
					HostKey:        xssh.FixedHostKey(nil),
					AbsentPatience: tt.patience,
				})
				defer c.Close()
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				start := time.Now()
				err := c.Connect(ctx)
				took := time.Since(start)
				switch {
				case err == nil || attempts < 3:
					t.Errorf("%d attempts, %v", attempts, err)
				case tt.short && (took < patience || took > 2*patience || errors.Is(err, context.DeadlineExceeded)):
					t.Errorf("tried for %v: %v", took, err)
				case !tt.short && (took != limit || !errors.Is(err, context.DeadlineExceeded)):
					t.Errorf("tried for %v: %v", took, err)
				case strings.HasPrefix(tt.name, "refused") && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ECONNRESET):
					t.Errorf("it does not say why: %v", err)
				}
			})
		})
	}
}
