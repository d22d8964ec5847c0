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

	"github.com/gputrain/gputrain/internal/secretref"
	"github.com/gputrain/gputrain/providers/driver"
)

// Credential returns the credential in a field of a Config, which may be a reference, or else
// the first of the variables that is set. hint names the place to get a credential.
func Credential(ctx context.Context, field string, given driver.Secret, hint string, variables ...string) (string, error) {
	return CredentialOr(ctx, field, given, hint, func() (string, error) { return "", nil }, variables...)
}

// Optional is [Credential] for a credential that need not be set. It returns "" if there is none.
func Optional(ctx context.Context, field string, given driver.Secret, variables ...string) (string, error) {
	value, err := secretref.Resolve(ctx, string(given))
	if err != nil {
		return "", &driver.Error{Kind: driver.ErrAuth, Err: fmt.Errorf("looking up Config.%s: %w", field, err)}
	}
	for _, name := range variables {
		if strings.TrimSpace(value) == "" {
			value = os.Getenv(name)
		}
	}
	return strings.TrimSpace(value), nil
}

// CredentialOr is [Credential] for a cloud whose own tools keep a credential in a file. If
// neither the field nor a variable has one, it calls read, which returns the credential, or ""
// if there is none.
func CredentialOr(ctx context.Context, field string, given driver.Secret, hint string, read func() (string, error), variables ...string) (string, error) {
	value, err := Optional(ctx, field, given, variables...)
	if err != nil {
		return "", err
	}
	if value == "" {
		if value, err = read(); err != nil {
			return "", &driver.Error{Kind: driver.ErrAuth, Err: fmt.Errorf("reading the key's file: %w", err)}
		}
	}
	if value = strings.TrimSpace(value); value == "" {
		return "", &driver.Error{Kind: driver.ErrAuth, Err: fmt.Errorf("no %s is set", field),
			Hint: fmt.Sprintf("set %s or Config.%s: %s", strings.Join(variables, " or "), field, hint)}
	}
	return value, nil
}

// KeyAccount names the account of a key, for clouds that have no name for it, by the beginning
// of the key's hash, which does not reveal the key. Two keys of one account count as two
// accounts.
func KeyAccount(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "key " + hex.EncodeToString(sum[:4])
}

// Faults collects everything that is wrong with a Config. The zero value is ready.
type Faults struct{ all []error }

// Require adds a fault unless good is true.
func (f *Faults) Require(good bool, format string, args ...any) {
	if !good {
		f.all = append(f.all, fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...))
	}
}

// Endpoint requires "" or an address that paths can be appended to, without a secret in it.
func (f *Faults) Endpoint(field, address, like string) {
	u, err := url.Parse(address)
	good := err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
	f.Require(address == "" || good, "%s is not like %s", field, like)
}

// Timeout requires zero, or at least a second.
func (f *Faults) Timeout(field string, d time.Duration) {
	f.Require(d == 0 || d >= time.Second, "%s is %v; the minimum is a second", field, d)
}

// Word requires a value without blanks and invisible characters, or "".
func (f *Faults) Word(field, value string) {
	f.Require(!strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == 0x7f }), "%s %q contains a blank", field, value)
}

// Err returns the faults, or nil.
func (f *Faults) Err() error {
	slices.SortFunc(f.all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(f.all...)
}
