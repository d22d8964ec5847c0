package cloud

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/secretref"
)

// Credential returns what a field of a Config stands for, which may be a reference, or else
// the first of the variables that is set. hint says where a credential is to be had.
func Credential(ctx context.Context, field string, given gputrain.Secret, hint string, variables ...string) (string, error) {
	value, err := secretref.Resolve(ctx, string(given))
	if err != nil {
		return "", &gputrain.Error{Kind: gputrain.ErrAuth, Err: fmt.Errorf("looking up Config.%s: %w", field, err)}
	}
	for _, name := range variables {
		if strings.TrimSpace(value) == "" {
			value = os.Getenv(name)
		}
	}
	if value = strings.TrimSpace(value); value == "" {
		return "", &gputrain.Error{Kind: gputrain.ErrAuth, Err: fmt.Errorf("there is no %s", field),
			Hint: fmt.Sprintf("set %s or Config.%s: %s", strings.Join(variables, " or "), field, hint)}
	}
	return value, nil
}

// KeyAccount names the account of a key at a cloud that has no name for it: by the
// beginning of the key's hash, from which nobody gets the key. Another key of the same
// account is another account by that.
func KeyAccount(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "key " + hex.EncodeToString(sum[:4])
}

// Faults are what is wrong with a Config, all of it at once. The zero value is ready.
type Faults struct{ all []error }

// Require notes a fault where something is not so.
func (f *Faults) Require(good bool, format string, args ...any) {
	if !good {
		f.all = append(f.all, fmt.Errorf("%w: "+format, append([]any{gputrain.ErrInvalid}, args...)...))
	}
}

// Endpoint wants an address that paths can be appended to, without a secret in it, or "".
func (f *Faults) Endpoint(field, address, like string) {
	u, err := url.Parse(address)
	good := err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
	f.Require(address == "" || good, "%s is not like %s", field, like)
}

// Timeout wants zero, or a second at least.
func (f *Faults) Timeout(field string, d time.Duration) {
	f.Require(d == 0 || d >= time.Second, "%s is %v; the least is a second", field, d)
}

// Word wants a value that holds no blank and nothing that cannot be seen, or "".
func (f *Faults) Word(field, value string) {
	f.Require(!strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == 0x7f }), "%s %q has a blank in it", field, value)
}

// Err returns the faults, or nil.
func (f *Faults) Err() error {
	slices.SortFunc(f.all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(f.all...)
}
