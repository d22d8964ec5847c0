// Package keyring lets a program read its secrets from the system's keyring. A blank import is
// enough:
//
//	import _ "github.com/gputrain/gputrain/secrets/keyring"
//
// Then store://SERVICE/USER is the password that the keyring has for a service and a user: see
// gputrain.Secret. The keyring is the Keychain of macOS, the Credential Manager of Windows,
// and elsewhere a Secret Service such as GNOME Keyring or KeePassXC. A Secret Service is
// reached over a D-Bus session, to which a connection stays open; servers have none.
//
// These commands store a password, for example:
//
//	security add-generic-password -s gputrain -a lambda -w                        # macOS
//	secret-tool store --label=gputrain service gputrain username lambda           # Linux
//
// The package is separate because its client adds a third of a megabyte to a program under
// Linux.
package keyring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/gputrain/gputrain/internal/secretref"
	"github.com/zalando/go-keyring"
)

// timeout bounds a query: the keyring may ask the user for a password first.
const timeout = time.Minute

func init() { secretref.RegisterKeyring(get) }

// turn is held by the caller that queries the keyring. Its D-Bus client confuses the prompts
// of concurrent callers. At most one query without an answer stays open.
var turn = make(chan struct{}, 1)

// system queries the keyring. Tests replace it.
var system = keyring.Get

func get(ctx context.Context, service, user string) (string, error) {
	if !hasKeyring() {
		return "", errors.New("there is no keyring: it is reached over a D-Bus session, and this machine has none, as servers have none; use env://, file:// or cmd://")
	}
	secret, err := ask(ctx, turn, timeout, func() (string, error) { return system(service, user) })
	switch {
	case err == nil:
		return secret, nil
	case errors.Is(err, keyring.ErrNotFound):
		return "", fmt.Errorf("the keyring has nothing for service %q and user %q%s", service, user, howToKeep(service, user))
	case errors.Is(err, keyring.ErrUnsupportedPlatform):
		return "", fmt.Errorf("there is no keyring on %s; use env://, file:// or cmd://", runtime.GOOS)
	case ctx.Err() != nil:
		return "", err
	}
	return "", fmt.Errorf("the keyring: %w; is one running, and unlocked? env://, file:// and cmd:// need none", err)
}

// howToKeep returns a hint with the command that stores a secret under the missing name.
func howToKeep(service, user string) string {
	switch runtime.GOOS {
	case "darwin":
		return fmt.Sprintf("; keep it with: security add-generic-password -s %q -a %q -w", service, user)
	case "windows":
		return ""
	}
	return fmt.Sprintf("; keep it with: secret-tool store --label=gputrain service %q username %q", service, user)
}

// hasKeyring reports whether there is a D-Bus session, on systems whose keyring is reached
// over one. Without it, the client would start one with dbus-launch and leave it behind.
func hasKeyring() bool {
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		return true
	}
	if address := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); address != "" && address != "autolaunch:" {
		return true
	}
	_, err := os.Stat(fmt.Sprintf("/run/user/%d/bus", os.Getuid()))
	return err == nil
}

// ask runs a query that cannot be cancelled, and waits for its answer at most for limit.
func ask(ctx context.Context, turn chan struct{}, limit time.Duration, get func() (string, error)) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it has not answered in %v", limit))
	defer cancel()
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	type answer struct {
		secret string
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-turn }()
		var a answer
		defer func() {
			if r := recover(); r != nil { // go-keyring's, when the session ends during a prompt
				a.err = fmt.Errorf("its client failed: %v", r)
			}
			answers <- a
		}()
		a.secret, a.err = get()
	}()
	select {
	case a := <-answers:
		return a.secret, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
