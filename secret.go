package gputrain

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"

	"github.com/gputrain/gputrain/internal/secretref"
)

// A Secret is a credential that prints as "[redacted]" under every fmt verb,
// in JSON and in slog. Its value leaves only by an explicit string(s), and in one
// other way: the fmt package calls no methods on what it reaches through an unexported
// field. A Secret in such a field, or in a struct, slice or map there, is printed in clear
// by %v of the struct around it. Keep it in an exported field, or keep a func that
// returns it, or give the struct a Format method. The command
// github.com/gputrain/gputrain/tools/secretvet reports unexported fields that hold one.
//
// Where a program gives one to this package, or to a provider's Config, it is the
// credential itself, byte for byte, or says where that is:
//
//   - env://NAME is an environment variable of this program.
//   - file://PATH is a file of this computer, of 1 MiB at most: absolute, beginning
//     with ~/, or relative to the working directory. PATH is taken as it is, without
//     %-escapes. Others may be able to read it: CI systems mount secrets like that.
//   - store://SERVICE/USER is in the system's keyring, for programs that import
//     github.com/gputrain/gputrain/secrets/keyring. USER is what follows the last slash.
//   - cmd://COMMAND LINE is what a command prints: "cmd://op read op://team/wandb/key".
//     It is run by sh -c (cmd /c under Windows) on this computer, in this program's
//     working directory and with all of its environment, in which other credentials may
//     be, and with nothing on stdin. What it leaves running in its process group is killed.
//   - literal://TEXT is TEXT, whatever that looks like.
//
// These five prefixes, in lower case, are all there is: vault://x is a credential
// like any other. The end of the last line of a file, or of what a command prints, is no
// part of the secret. A secret that is not there, or is empty, is an error, and so is
// a command or keyring that takes more than a minute. An error names the variable, file
// or entry, and of a command line the first word; none has the secret.
//
// A reference is looked up when it is needed, and each time anew: that of a task when the
// task is given to a pool, once for the whole call and all its attempts, and that of a
// Config when a pool is opened. What was found is not read as a reference again.
//
// Whoever writes a Secret can have files of this computer read and commands run on it.
// Text that comes from somewhere else goes behind literal://. Settings that are given
// to providers/all may have commands only if the program allows that.
type Secret string

// resolveSecrets returns secrets as they are, without references. Those of one call
// share known: what is referred to twice is looked up once.
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

const redacted = "[redacted]"

// Format writes "[redacted]", whatever the verb.
func (Secret) Format(w fmt.State, _ rune) { io.WriteString(w, redacted) }

// MarshalText returns "[redacted]".
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns "[redacted]".
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
