package secretref

import (
	"context"
	"errors"
	"strings"
)

// askKeyring is how the system's keyring is asked, where the program has what does.
var askKeyring func(ctx context.Context, service, user string) (string, error)

// RegisterKeyring is for the init function of the package that has the keyring's client.
func RegisterKeyring(ask func(ctx context.Context, service, user string) (string, error)) {
	askKeyring = ask
}

func fromKeyring(ctx context.Context, rest string) (string, error) {
	if askKeyring == nil {
		return "", errors.New(`this program has no client of the keyring; import _ "github.com/gputrain/gputrain/secrets/keyring"`)
	}
	service, user := inKeyring(rest)
	return askKeyring(ctx, service, user)
}

// inKeyring splits at the last slash: services are often addresses.
func inKeyring(rest string) (service, user string) {
	i := strings.LastIndexByte(rest, '/')
	if i < 0 {
		return "", ""
	}
	return rest[:i], rest[i+1:]
}
