package program

import (
	"fmt"
	"strings"

	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/worker"
)

const (
	// A binary that is started in probeMode, which no worker has, reports an unknown mode and exits with probeExit. So
	// the node can load it. probeMark precedes the exit code in the node's answer.
	probeMode, probeExit, probeMark = "probe", "64", "exit="
	// The shell exits with notPermitted for a file that it may not execute, on a file system mounted noexec for example.
	notPermitted = "126"
)

// probe returns the command that tries whether the node can load the binary, which is quoted. One that needs no
// interpreter is not tried.
func (b *binary) probe(quoted string) string {
	if b.interpreter == "" {
		return ":"
	}
	return fmt.Sprintf("{ %s=%s %s >/dev/null </dev/null; echo %s$?; }", worker.Env, probeMode, quoted, probeMark)
}

// fit reads a probe's answer and stderr. The error is an unfitError.
func (b *binary) fit(answer string, complaint *output.Tail) error {
	code := strings.TrimSpace(strings.TrimPrefix(answer, probeMark))
	if b.interpreter == "" || code == probeExit || code == notPermitted {
		return nil // no other binary would be permitted either
	}
	said := strings.Split(strings.TrimSpace(complaint.String()), "\n")
	why := said[len(said)-1]
	if why == "" {
		why = "it ends with exit code " + code
	}
	return &unfitError{why}
}

// An unfitError means that a node cannot load a binary for its platform, such as one with C code that needs the libraries
// of the machine that built it.
type unfitError struct{ why string }

func (e *unfitError) Error() string { return "the node cannot run this program (" + e.why + ")" }
