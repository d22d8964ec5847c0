// Package secretref looks up references to secrets. gputrain.Secret documents their form for users.
package secretref

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

const (
	// maxSize bounds a file, or a command's output.
	maxSize = 1 << 20
	// patience bounds a command, which may ask the user first.
	patience = time.Minute
)

var errTooLarge = fmt.Errorf("it is larger than %d MiB", maxSize>>20)

// A reference is a scheme and what follows it.
type reference struct{ scheme, rest string }

// parse splits a value. A value without one of the schemes is a literal.
func parse(value string) reference {
	for _, scheme := range []string{"env", "file", "store", "cmd", "literal"} {
		if rest, ok := strings.CutPrefix(value, scheme+"://"); ok {
			return reference{scheme, rest}
		}
	}
	return reference{"literal", value}
}

// Check returns an error if a reference is malformed. It looks nothing up.
func Check(value string) error {
	switch r := parse(value); r.scheme {
	case "env":
		if r.rest == "" || strings.ContainsAny(r.rest, "=\x00") {
			return fmt.Errorf("%v names no variable; write env://NAME", r)
		}
	case "file":
		if r.rest == "" {
			return fmt.Errorf("%v names no file; write file://PATH", r)
		}
	case "store":
		if service, user := inKeyring(r.rest); service == "" || user == "" {
			return fmt.Errorf("%v lacks a service or a user; write store://SERVICE/USER", r)
		}
	case "cmd":
		if strings.TrimSpace(r.rest) == "" {
			return fmt.Errorf("%v has no command; write cmd://COMMAND LINE", r)
		}
	}
	return nil
}

// Resolve returns the secret that a value refers to, or the value itself if it is no reference. It
// looks the secret up in every call, and does not treat the result as a reference. No error
// contains the secret.
func Resolve(ctx context.Context, value string) (string, error) {
	r := parse(value)
	if r.scheme == "literal" {
		return r.rest, nil
	}
	if err := Check(value); err != nil {
		return "", err
	}
	secret, err := r.lookUp(ctx)
	switch {
	case err != nil:
	case secret == "":
		err = errors.New("it is empty")
	case strings.ContainsRune(secret, 0):
		err = errors.New("it has a NUL byte, so it cannot be used as a secret; is it UTF-16?")
	}
	if err != nil {
		return "", fmt.Errorf("%v: %w", r, err)
	}
	return secret, nil
}

func (r reference) lookUp(ctx context.Context) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	switch r.scheme {
	case "env":
		return fromEnv(r.rest)
	case "file":
		return fromFile(r.rest)
	case "store":
		return fromKeyring(ctx, r.rest)
	default:
		return fromCommand(ctx, r.rest, patience)
	}
}

// plainWord matches names of commands that cannot contain a secret, as NAME=VALUE can.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./\\:~+-]+$`)

// String returns the reference as errors show it: of a command only the first word, otherwise all
// of it.
func (r reference) String() string {
	if r.scheme != "cmd" {
		return fmt.Sprintf("%q", r.scheme+"://"+r.rest)
	}
	words := strings.Fields(r.rest)
	if len(words) == 0 {
		return `"cmd://"`
	}
	if !plainWord.MatchString(words[0]) {
		return `"cmd://..."`
	}
	if len(words) == 1 {
		return `"cmd://` + words[0] + `"`
	}
	return `"cmd://` + words[0] + ` ..."`
}

// line removes one newline from the end of a file's or command's text.
func line(text []byte) string {
	s, ended := strings.CutSuffix(string(text), "\n")
	if ended {
		s = strings.TrimSuffix(s, "\r")
	}
	return s
}
