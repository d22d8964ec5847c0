package cloud

import (
	"context"
	"errors"

	"github.com/gputrain/gputrain/providers/driver"
)

// errHasKey is the error of OpenPublic if there is a credential.
var errHasKey = errors.New("there is a credential, with which the provider was not opened")

// OpenPublic opens a provider without a credential, unless find finds one: see [driver.PublicProvider].
func OpenPublic(ctx context.Context, find func(context.Context) (string, error), open func() (driver.Driver, error)) (driver.Driver, error) {
	_, err := find(ctx)
	switch {
	case err == nil:
		return nil, errHasKey
	case !errors.Is(err, driver.ErrAuth):
		return nil, err
	}
	return open()
}
