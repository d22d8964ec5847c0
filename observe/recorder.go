package observe

import (
	"context"
	"iter"
	"time"

	"github.com/gputrain/gputrain"
)

// Config configures a Recorder. The zero value records in memory only.
type Config struct {
	// File gets every Entry as a line of JSON, for Read and for reports. Only this user can read it (mode 0600). A file that is
	// there is kept, beside, under its name and ".old". Empty means that there is no file.
	File string
	// Usage is the time between two samples of processors, memory and disk of each node: see gputrain.WithUsage. Zero means that
	// there are none. Accelerators are sampled by the pool in any case.
	Usage time.Duration
	// Lines is how many of the last lines of each task and phase are kept in Run. Zero means 200.
	Lines int
}

// An Entry is one thing that a Recorder has recorded: an event, or a line.
type Entry struct {
	// Seq numbers the entries of a Recorder, from 1.
	Seq int64
	// Event or Line is what it is; the other one is nil. They are not to be changed.
	Event *gputrain.Event
	Line  *gputrain.Line
}

// A Recorder records what pools do. Its methods can be called concurrently.
type Recorder struct {
}

// New returns a Recorder that has recorded nothing yet. The error is about Config.File.
func New(c Config) (*Recorder, error) { return nil, nil }

// Option has a pool tell the recorder what it does. It can be given to several pools.
func (r *Recorder) Option() gputrain.Option { return nil }

// Run returns what is known now.
func (r *Recorder) Run() Run { return Run{} }

// Events returns the entries after a number, as far as they are kept, and then those that come, until ctx ends or the recorder is
// closed. Zero is from the beginning. Without a file the last 100 000 are kept. A consumer that is slower than what comes misses
// none of those.
func (r *Recorder) Events(ctx context.Context, after int64) iter.Seq[Entry] { return nil }

// Close ends the recording. It returns when the file has everything, and what went wrong with it.
func (r *Recorder) Close() error { return nil }
