package gputrain

import (
	"context"
	"maps"
	"slices"

	"github.com/gputrain/gputrain/internal/secretref"
)

// resolveSecrets returns secrets with their references looked up. The tasks of one call share
// known, so that a reference that is used twice is looked up once.
func resolveSecrets(ctx context.Context, secrets map[string]Secret, known map[Secret]Secret) (map[string]Secret, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	found := make(map[string]Secret, len(secrets))
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		reference := secrets[name]
		value, ok := known[reference]
		if !ok {
			text, err := secretref.Resolve(ctx, string(reference))
			switch {
			case err != nil && ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case err != nil:
				return nil, &Error{Op: "secret " + name, Kind: ErrInvalid, Err: err}
			}
			value = Secret(text)
			known[reference] = value
		}
		found[name] = value
	}
	return found, nil
}
