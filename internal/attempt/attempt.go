// Package attempt makes one attempt at a command on one node: it follows the process, keeps its output, judges how it
// ended and brings its output files. Package calls does the same for functions, with what both have in common here.
package attempt

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
)

// A Runner makes the attempts of one pool.
type Runner struct {
	Printer *output.Printer
	Results *output.Results
	Secrets *output.Redactor
	// Files limits the output files of one attempt.
	Files transfer.Limits
	// Keeping counts the attempts whose output files are still to come.
	Keeping Keeping

	looks looks
}

// A Node is the part of a node that attempts on it use.
type Node interface {
	Rank() int
	Facts() supervisor.Facts
	Files() Files
	// IsUp reports whether the node can be reached now.
	IsUp() bool
	// Exec runs a command in the node's shell to its end, where tasks run. It fails with ssh.ErrStalled if nothing moves.
	Exec(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error
	// IsOver reports whether the node was given up. If so, Err returns why.
	IsOver() bool
	Err() error
}

// Files brings files from a node. A transfer.Remote does.
type Files interface {
	Fetch(ctx context.Context, globs []string, localDir string, o transfer.FetchOptions) ([]transfer.File, error)
	Bring(ctx context.Context, globs []string, c *transfer.Copies, o transfer.FetchOptions) error
	Near(ctx context.Context, globs []string, dir string) ([]transfer.Near, error)
}

// An Attempt is the common part of attempts at commands and at calls of functions.
type Attempt struct {
	// ID names the attempt. No other attempt of the pool has the same.
	ID string
	// From is what its lines come from. Its Label stands before each.
	From output.Source
	// Context ends when the task is cancelled. The context that methods are given may end earlier, with the node.
	Context context.Context
	// Timeout bounds how long the attempt runs. Zero is no bound.
	Timeout time.Duration
	// Outputs are the patterns of the files that are brought back, however the attempt ended. They are relative to Dir.
	Outputs []string
	Dir     string
	// SyncEvery is how often those files come while the attempt runs. Zero means at its end only.
	SyncEvery time.Duration
	// DropIfCancelled leaves the files on the node if the attempt is cancelled.
	DropIfCancelled bool
	// Share is the memory that its output may take.
	Share *output.Share
	// Started is called when the attempt has begun to run.
	Started func()
	// Failed, if not nil, is called with the failure of the attempt before its files are brought, which may take long.
	Failed func(*Failure)
	// Receiving, if not nil, is called before files are brought. It returns what is told how far that is, and what is
	// called at its end.
	Receiving func() (progress transfer.Progress, end func(error))
	// SyncFailed, if not nil, is called when files could not come while the attempt runs. They are tried again.
	SyncFailed func(error)
	// Checkpoints, if not nil, are put back before the attempt begins, and copied while it runs.
	Checkpoints *Checkpoints
	// Watch, if not nil, is given the two streams before the attempt begins. They may then be read at any time, so their
	// files stay even if the outcome does not name them.
	Watch func(stdout, stderr *output.Spool)
	// Progress, if not nil, is told how far the attempt gets.
	Progress Progress
	// Stall, if not nil, ends the attempt when it makes no progress.
	Stall *Stall
}

// Judged reports the failure of an attempt that has ended, if it is one, before its files are brought.
func (a *Attempt) Judged(f *Failure, ended time.Time) {
	if f == nil {
		return
	}
	f.At = ended
	if a.Failed != nil {
		a.Failed(f)
	}
}

// An Outcome is how an attempt ended.
type Outcome struct {
	// ExitCode is that of a command, 0 of a function that succeeded, and -1 if there is none.
	ExitCode int
	Elapsed  time.Duration
	// Stdout and Stderr are what was kept of the output. Truncated reports that there was more.
	Stdout, Stderr output.Kept
	Truncated      bool
	// Outputs are the files that were brought back to OutputDir, also by an attempt that failed.
	OutputDir string
	Outputs   []transfer.File
	// Value is what a function returned.
	Value codec.Body
	// Failure is nil if the attempt succeeded.
	Failure *Failure
	// Release makes the node forget the attempt. It is called once the outcome is recorded. It may be nil.
	Release func()
	// Gone is closed when a function that ignores the end of its context no longer runs. Until then it occupies its slot.
	// It is nil if nothing runs any more.
	Gone <-chan struct{}
}

// SetOutput ends the two streams and puts what was kept of them into the outcome.
func (o *Outcome) SetOutput(stdout, stderr *output.Spool) error {
	var outErr, errErr error
	o.Stdout, outErr = stdout.Close()
	o.Stderr, errErr = stderr.Close()
	o.Truncated = o.Truncated || o.Stdout.Cut || o.Stderr.Cut
	return errors.Join(outErr, errErr)
}
