package gputrain

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/gputrain/gputrain/internal/crossbuild"
)

// An Option is something a program injects into a pool, as opposed to what a
// Spec says.
type Option func(*options)

type options struct {
	name           string
	stdout, stderr io.Writer
	rawOutput      bool
	events         func(Event)
	logger         *slog.Logger
	resultsDir     string
	workerBinaries []string
	sourceDir      string
	stateDir       StateDir
	takeover       bool
	secrets        map[string]Secret //secretvet:ignore no message formats options
	limits         Limits
}

// WithName names the pool. The name is part of the pool's ID and of what the
// provider shows: letters, digits and dashes, at most 30.
func WithName(name string) Option { return func(o *options) { o.name = name } }

// WithOutput streams what tasks and phases write to the two writers as it
// comes, line by line, each line behind a prefix that names its task, or its node if
// it is of functions that run at the same time in one process: see [Func]. Either
// may be nil. Writes are never concurrent, also where both are the same. A writer that
// blocks holds up the tasks that print.
//
// A node can write what it likes, and the writers are often a terminal: lines lose
// colours and other control characters but tabs, and bytes that are no UTF-8 become
// U+FFFD. [WithRawOutput] changes that. Result.Stdout and Stderr are always as they came.
//
// A line that returns to its start by carriage returns, as progress bars do, is shown
// while it changes. An [os.File] that is a terminal (not on Windows, nor if TERM is unset or
// "dumb") has the last state below all whole lines, renewed up to four times a second; if
// several tasks have such a line, they take turns of a second. Any other writer, such as a
// log file, gets the state as a line of its own every ten seconds at most. The final state
// of a line is written once.
func WithOutput(stdout, stderr io.Writer) Option {
	return func(o *options) { o.stdout, o.stderr = stdout, stderr }
}

// WithRawOutput hands the bytes of each line to WithOutput's writers as they came, but
// for secrets: with colours, and with whatever else makes a terminal act. It is for
// nodes that are trusted, and for writers that are no terminal. What comes up to a carriage
// return is handed over within a quarter of a second, behind a prefix like a line.
func WithRawOutput() Option { return func(o *options) { o.rawOutput = true } }

// WithEvents calls f for every event, one at a time, in order. A slow f delays
// later events, and Close, but nothing else: if more than [BacklogEvents] wait for it, the
// oldest that are routine are left out, and counted by an [EventOmitted]. It must not
// close the pool.
func WithEvents(f func(Event)) Option { return func(o *options) { o.events = f } }

// WithLogger writes every event through a logger: what went wrong at level
// warn, the rest at level info.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithResultsDir says where Outputs, and output streams longer than what is kept in
// memory (see [Limits]), are put: one folder for each task, which only this user can enter. They stay there
// after Close. The default is a folder in "results" of the state directory, see
// [StateDir], whose name begins with the pool's ID; it is made once it is needed, and
// Attach goes on with it. Results are the user's to remove: Close and Reap never do.
func WithResultsDir(dir string) Option { return func(o *options) { o.resultsDir = dir } }

// WithWorkerBinary names a program that serves functions on nodes of its
// platform, where that is not this program's: the same main package, built for
// them (GOOS=linux GOARCH=amd64 CGO_ENABLED=0 go build). Given several times, it
// names one for each of several platforms.
//
// For a platform that it names none for, the program is built with the Go
// toolchain, with the same tags and, unless built with -trimpath, the same
// -ldflags=-X. So it also is, statically, for nodes of its own platform that lack the
// C libraries it was linked with. The sources are those of its module's version, by
// the checksum that the program has of it, or are in the folder that the program was
// built from, which it knows unless built with -trimpath, or in that of
// [WithSourceDir]. A folder that another user can change is not used, and files that
// are newer than the program are refused as changed.
func WithWorkerBinary(path string) Option {
	return func(o *options) { o.workerBinaries = append(o.workerBinaries, path) }
}

// WithSourceDir names a folder in the module of this program, from which it is built
// for nodes of other platforms; no other is looked at. It is for a program that was
// built with -trimpath, or whose sources were moved. A relative path is below the
// working directory at the time of this call. Empty means none.
//
// The caller answers for the folder, as by go build there: it is not asked whose it is.
// Another main package or module, other versions of dependencies, and files that are
// newer than the program are still errors. See [WithWorkerBinary] for what is built
// without it.
func WithSourceDir(dir string) Option {
	if abs, err := filepath.Abs(dir); err == nil && dir != "" {
		dir = abs
	}
	return func(o *options) { o.sourceDir = dir }
}

func (o *options) validate() error {
	var f faults
	if len(o.name) > 30 {
		f.add("the name %q has %d characters; 30 fit", o.name, len(o.name))
	}
	for _, r := range strings.ToLower(o.name) {
		if !(r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z') {
			f.add("the name %q has %q; letters, digits and dashes are taken", o.name, fmt.Sprintf("%c", r))
			break
		}
	}
	for _, name := range o.workerBinaries {
		if _, err := crossbuild.Identify(name); err != nil {
			f.add("WithWorkerBinary: %v", err)
		}
	}
	if o.sourceDir != "" {
		if info, err := os.Stat(o.sourceDir); err != nil {
			f.add("WithSourceDir: %v", err)
		} else if !info.IsDir() {
			f.add("WithSourceDir: %s is not a folder", o.sourceDir)
		}
	}
	o.limits.validate(&f)
	for name, value := range o.secrets {
		f.secret(fmt.Sprintf("WithSecrets[%q]", name), value)
	}
	return f.err("options")
}
