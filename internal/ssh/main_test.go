package ssh

import (
	"context"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// configFor returns the configuration to reach a server, or a link in front of it, at addr.
func configFor(t testing.TB, s *opensshtest.Server, addr string) Config {
	t.Helper()
	check, algorithms, err := HostKeys([]string{Fingerprint(s.HostKey)}, "", addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Dial:              dialer(addr),
		Addr:              addr,
		User:              s.User,
		Auth:              []xssh.AuthMethod{xssh.PublicKeys(s.Signer)},
		HostKey:           check,
		HostKeyAlgorithms: algorithms,
	}
}

func dialer(addr string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}
}

// connect returns a connected client, closed at the end of the test.
func connect(t testing.TB, cfg Config) *Client {
	t.Helper()
	c := New(cfg)
	t.Cleanup(func() { c.Close() })
	if err := c.Connect(inTime(t)); err != nil {
		t.Fatal(err)
	}
	return c
}

// inTime returns a ctx that ends before the test's deadline, so that a hanging test fails.
func inTime(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// events returns the events that a client reports.
func events(cfg *Config) <-chan Event {
	seen := make(chan Event, 1000)
	cfg.Notify = func(e Event) { seen <- e }
	return seen
}

// waitForEvent receives events until one has the kind.
func waitForEvent(t testing.TB, seen <-chan Event, kind EventKind) Event {
	t.Helper()
	ctx := inTime(t)
	for {
		select {
		case e := <-seen:
			if e.Kind == kind {
				return e
			}
		case <-ctx.Done():
			t.Fatalf("no event %v came", kind)
		}
	}
}
