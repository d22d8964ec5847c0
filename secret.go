package gputrain

import (
	"fmt"
	"io"
	"log/slog"
)

// A Secret is a credential that prints as "[redacted]" under every fmt verb,
// in JSON and in slog. Its value leaves only by an explicit string(s).
type Secret string

const redacted = "[redacted]"

// Format writes "[redacted]", whatever the verb.
func (Secret) Format(w fmt.State, _ rune) { io.WriteString(w, redacted) }

// MarshalText returns "[redacted]".
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns "[redacted]".
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
