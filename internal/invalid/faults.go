// Package invalid collects what is wrong with what a user has set, and reports all of it at once.
package invalid

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/credential"
	"github.com/gputrain/gputrain/internal/secretref"
	"github.com/gputrain/gputrain/providers/driver"
)

// Faults collects everything that is wrong, so that one error reports all of it.
type Faults []string

// Add notes what is wrong.
func (f *Faults) Add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// Count rejects a negative number of something.
func (f *Faults) Count(name string, n int) {
	if n < 0 {
		f.Add("%s is %d; it counts, so it cannot be negative", name, n)
	}
}

// Amount rejects a negative amount, and what is no number.
func (f *Faults) Amount(name string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		f.Add("%s is %v; it must be a number from 0 up", name, v)
	}
}

// Bounds checks a minimum, and the maximum whose name begins with Max.
func (f *Faults) Bounds(name string, least, most float64) {
	f.Amount(name, least)
	f.Amount("Max"+name, most)
	if most > 0 && least > most {
		f.Add("%s is %v, more than the %v of Max%[1]s", name, least, most)
	}
}

// Names rejects empty names in a list.
func (f *Faults) Names(list string, all []string) {
	for i, s := range all {
		where := fmt.Sprintf("%s[%d]", list, i)
		if strings.TrimSpace(s) == "" {
			f.Add("%s is empty", where)
		}
		f.Text(where, s)
	}
}

// Duration rejects one that is negative, or has no unit.
func (f *Faults) Duration(name string, d time.Duration) {
	switch {
	case d < 0:
		f.Add("%s is %v; it cannot be negative", name, d)
	case 0 < d && d < time.Millisecond:
		f.Add("%s is %v; a number without a unit is nanoseconds: write 10 * time.Second", name, d)
	}
}

// Text rejects text that cannot be handed to a process.
func (f *Faults) Text(name, s string) {
	if strings.ContainsRune(s, 0) {
		f.Add("%s has a NUL byte, which no process can be given", name)
	}
}

// Secret rejects a value that cannot be handed to a process, and a malformed reference.
func (f *Faults) Secret(name string, s driver.Secret) {
	f.Text(name, string(s))
	if err := secretref.Check(string(s)); err != nil {
		f.Add("%s: %v", name, err)
	}
}

// Env rejects names that no process is given, and credentials, which belong into secrets. Values are not printed.
func (f *Faults) Env(where, secrets string, env map[string]string) {
	for name, value := range env {
		f.EnvName(where, name)
		f.Text(fmt.Sprintf("%s[%q]", where, name), value)
		if credential.IsNamed(name, value) {
			f.Add("%s[%q] is a credential by its name, and Env is kept in clear; use %s, or another name if it is none", where, name, secrets)
		}
	}
}

// EnvName rejects a name that no process is given, or that is gputrain's own.
func (f *Faults) EnvName(where, name string) {
	if !IsEnvName(name) {
		f.Add("%s has the name %q; a name has letters, digits, _ and dots, and starts with a letter or _", where, name)
	}
	if strings.HasPrefix(name, "GPUTRAIN_") {
		f.Add("%s has the name %q; names with GPUTRAIN_ are gputrain's own", where, name)
	}
}

// IsEnvName reports whether a process can be given a variable of the name. One with a dot is no variable of a shell's.
func IsEnvName(s string) bool {
	for i, r := range s {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r != '.' && (r < '0' || r > '9')) {
			return false
		}
	}
	return s != ""
}

// Dotted returns a name with a dot of the variables, or "".
func Dotted(env map[string]string, secrets map[string]driver.Secret) string {
	for _, names := range []iter.Seq[string]{maps.Keys(env), maps.Keys(secrets)} {
		for _, name := range slices.Sorted(names) {
			if strings.Contains(name, ".") {
				return name
			}
		}
	}
	return ""
}

// Err joins the faults into one [driver.ErrInvalid], or returns nil.
func (f Faults) Err(what string) error {
	if len(f) == 0 {
		return nil
	}
	return &driver.Error{Op: what, Kind: driver.ErrInvalid, Err: errors.New(strings.Join(f, "; "))}
}
