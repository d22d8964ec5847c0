// Package gputrain stands for the real one.
package gputrain

import "fmt"

type Secret string

func (Secret) Format(w fmt.State, _ rune) { fmt.Fprint(w, "[redacted]") }
