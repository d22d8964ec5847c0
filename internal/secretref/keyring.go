package secretref

import (
	"context"
	"errors"
	"strings"
)

// askKeyring asks the system's keyring. It is nil in a program that does not import secrets/keyring.
var askKeyring func(ctx context.Context, service, user string) (string, error)

// RegisterKeyring sets askKeyring. The package with the keyring's client calls it in its init
// function.
func RegisterKeyring(ask func(ctx context.Context, service, user string) (string, error)) {
	askKeyring = ask
}

func fromKeyring(ctx context.Context, rest string) (string, error) {
	if askKeyring == nil {
		return "", errors.New(`this program has no client for the keyring; import _ "github.com/gputrain/gputrain/secrets/keyring"`)
	}
	service, user := inKeyring(rest)
	return askKeyring(ctx, service, user)
}

// inKeyring splits at the last slash, because services are often addresses.
func inKeyring(rest string) (service, user string) {
	i := strings.LastIndexByte(rest, '/')
	if i < 0 {
		return "", ""
	}
	return rest[:i], rest[i+1:]
}
