package ssh

import (
	"bytes"
	"errors"
	"fmt"
)

// MaxAnswer bounds what an Answer keeps. A helper command that prints more is ended.
const MaxAnswer = 1 << 20

// ErrAnswer means that a helper command printed more than MaxAnswer.
var ErrAnswer = errors.New("the answer is too long")

// An Answer receives the output of a helper command, which is expected to be short. Beyond MaxAnswer its Write fails
// with ErrAnswer, and so does Exec.
type Answer struct{ text bytes.Buffer }

// Write keeps all of p, or fails and keeps nothing of it.
func (a *Answer) Write(p []byte) (int, error) {
	if a.text.Len()+len(p) > MaxAnswer {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrAnswer, MaxAnswer)
	}
	return a.text.Write(p)
}

// String returns what was printed.
func (a *Answer) String() string { return a.text.String() }
