package keyring

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zalando/go-keyring"
	"go.uber.org/goleak"

	"github.com/gputrain/gputrain/internal/secretref"
	"github.com/gputrain/gputrain/internal/test/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A query to a D-Bus session that accepts connections and never answers ends with ctx.
func TestSilentSession(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the keyring is not reached over D-Bus")
	}
	socket := filepath.Join(t.TempDir(), "bus")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+socket)
	over := errors.New("the call was given up")
	ctx, cancel := context.WithCancelCause(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := secretref.Resolve(ctx, "store://gputrain/lambda")
		result <- err
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	cancel(over)
	if err := <-result; !errors.Is(err, over) {
		t.Error(err)
	}
	conn.Close() // now its client fails, and the next query gets its turn
	l.Close()
	if _, err := secretref.Resolve(t.Context(), "store://gputrain/lambda"); err == nil || !strings.Contains(err.Error(), "is one running") {
		t.Errorf("without a session: %v", err)
	}
}

// Without a D-Bus session, none is started.
func TestNoSession(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	if hasKeyring() {
		t.Skip("this machine has a keyring")
	}
	_, err := secretref.Resolve(t.Context(), "store://gputrain/lambda")
	if err == nil || !strings.Contains(err.Error(), "there is no keyring: it is reached over a D-Bus session") {
		t.Error(err)
	}
}

func TestKeyring(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere") // the fake needs none
	t.Cleanup(func() { system = keyring.Get })
	system = func(service, user string) (string, error) {
		if service == "https://api.example/v1" && user == "me" {
			return "hunter2", nil
		}
		return "", keyring.ErrNotFound
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got, err := secretref.Resolve(t.Context(), "store://https://api.example/v1/me"); got != "hunter2" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	wg.Wait()
	_, err := secretref.Resolve(t.Context(), "store://gputrain/lambda")
	if want := `"store://gputrain/lambda": the keyring has nothing for service "gputrain" and user "lambda"`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %s", err, want)
	}
	system = func(string, string) (string, error) { return "", errors.New("it is locked") }
	_, err = secretref.Resolve(t.Context(), "store://gputrain/lambda")
	if err == nil || !strings.Contains(err.Error(), "the keyring: it is locked; is one running, and unlocked? env://, file:// and cmd:// need none") {
		t.Error(err)
	}
	system = func(string, string) (string, error) { return "", keyring.ErrUnsupportedPlatform }
	if _, err = secretref.Resolve(t.Context(), "store://gputrain/lambda"); err == nil || !strings.Contains(err.Error(), "there is no keyring on "+runtime.GOOS) {
		t.Error(err)
	}
}

func TestKeyringThatIsSilent(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		turn, hangs := make(chan struct{}, 1), make(chan struct{})
		hang := func() (string, error) { <-hangs; return "too late", nil }
		began := time.Now()
		for range 3 { // the first query stays open, the others are not sent
			if got, err := ask(t.Context(), turn, time.Minute, hang); got != "" || err == nil || err.Error() != "it has not answered in 1m0s" {
				t.Errorf("%q, %v", got, err)
			}
			hang = func() (string, error) { t.Error("a second question is put"); return "", nil }
		}
		if waited := time.Since(began); waited != 3*time.Minute {
			t.Errorf("it was waited for %v", waited)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		over := errors.New("the call was given up")
		cancel(over)
		if _, err := ask(ctx, turn, time.Minute, hang); !errors.Is(err, over) {
			t.Errorf("after the end: %v", err)
		}
		close(hangs)
		if got, err := ask(t.Context(), turn, time.Minute, func() (string, error) { return "hunter2", nil }); got != "hunter2" || err != nil {
			t.Errorf("once it answers again: %q, %v", got, err)
		}
	})
}

func TestKeyringClientThatPanics(t *testing.T) {
	turn := make(chan struct{}, 1)
	for range 2 {
		var session *struct{ name string }
		got, err := ask(t.Context(), turn, time.Minute, func() (string, error) { return session.name, nil })
		if got != "" || err == nil || !strings.Contains(err.Error(), "its client failed") {
			t.Errorf("%q, %v", got, err)
		}
	}
}
