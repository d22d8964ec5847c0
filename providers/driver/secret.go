package driver

import (
	"fmt"
	"io"
	"log/slog"
)

// A Secret is a credential that prints as "[redacted]" under every fmt verb, in JSON and in
// slog. Its value leaves only by an explicit string(s), and in one other way: the fmt package
// calls no methods on values in an unexported field. A Secret in such a field, or in a struct,
// slice or map there, is printed in clear by %v of the struct around it. Keep it in an exported
// field, keep a func that returns it, or give the struct a Format method. The command
// github.com/gputrain/gputrain/tools/secretvet reports unexported fields that hold one.
//
// A Secret that a program gives to package gputrain, or to a provider's Config, is the
// credential itself, byte for byte, or a reference to it:
//
//   - env://NAME is an environment variable of this program.
//   - file://PATH is a file of this computer, of 1 MiB at most: absolute, beginning
//     with ~/, or relative to the working directory. PATH is taken as it is, without
//     %-escapes. Others may be able to read it: CI systems mount secrets like that.
//   - store://SERVICE/USER is in the system's keyring, for programs that import
//     github.com/gputrain/gputrain/secrets/keyring. USER is the text after the last slash.
//   - cmd://COMMAND LINE is the output of a command: "cmd://op read op://team/wandb/key".
//     It is run by sh -c (cmd /c under Windows) on this computer, in this program's
//     working directory and with all of its environment, in which other credentials may
//     be, and with nothing on stdin. What it leaves running in its process group is killed.
//   - literal://TEXT is TEXT, whatever that looks like.
//
// There are only these five prefixes, in lower case: vault://x is a credential like any other.
// The line break at the end of a file, or of a command's output, is not part of the secret. A
// missing or empty secret is an error, and so is a command or keyring that takes more than a
// minute. An error names the variable, file or entry, or the first word of a command line, and
// never the secret.
//
// A reference is looked up when it is needed, each time again: a task's when the task is given
// to a pool, once for the whole call and all its attempts, and a Config's when a pool is
// opened. The result is not read as a reference again.
//
// The author of a Secret can make this program read files of this computer and run commands on
// it. Put text from other sources behind literal://. Settings for providers/all may contain
// commands only if the program allows that.
type Secret string

const redacted = "[redacted]"

// Format writes "[redacted]", whatever the verb.
func (Secret) Format(w fmt.State, _ rune) { io.WriteString(w, redacted) }

// MarshalText returns "[redacted]".
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns "[redacted]".
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
