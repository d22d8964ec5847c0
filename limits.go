package gputrain

import (
	"math"

	"github.com/gputrain/gputrain/internal/transfer"
)

// Limits bound what nodes can make this program keep, in memory and on disk. A zero
// field has the default that it names; -1 is for no bound of this package's own.
type Limits struct {
	// ResultBytes bounds the encoded result of one call of a function, and each value
	// that a function sends through a stream. Zero means [DefaultResultBytes]. A longer
	// one fails the call with [ErrLimit].
	ResultBytes int64
	// OutputBytes bounds how much of each output stream of an attempt is kept on this
	// computer. Zero means [DefaultOutputBytes]. What comes beyond it is shown by
	// WithOutput and counted in Result.StdoutBytes and StderrBytes, and is not kept.
	OutputBytes int64
	// KeptOutputBytes bounds how much of each output stream of an attempt is kept in
	// memory, in Result.Stdout and Stderr. Zero means [DefaultKeptOutputBytes]. All of a
	// longer stream is in a file.
	KeptOutputBytes int64
	// KeptTotalBytes bounds how much that is for all tasks together whose results the
	// program has not got: those of a Gather until it returns, of a Job until Wait
	// returns. Zero means [DefaultKeptTotalBytes]. While it is used up, 4 KiB of each
	// further stream are kept in memory, and all of a longer one is in a file.
	KeptTotalBytes int64
	// DownloadBytes bounds what one node sends for one Download, or for the Outputs of
	// one attempt. Zero means [DefaultDownloadBytes]. More is [ErrLimit].
	DownloadBytes int64
	// DownloadFiles bounds how many files, folders and links that is. Zero means
	// [DefaultDownloadFiles]. More is [ErrLimit].
	DownloadFiles int
}

const (
	// DefaultResultBytes is 2 GiB.
	DefaultResultBytes = 2 << 30
	// DefaultOutputBytes is 16 GiB.
	DefaultOutputBytes = 16 << 30
	// DefaultKeptOutputBytes is 1 MiB.
	DefaultKeptOutputBytes = 1 << 20
	// DefaultKeptTotalBytes is 1 GiB.
	DefaultKeptTotalBytes = 1 << 30
	// DefaultDownloadBytes is 256 GiB.
	DefaultDownloadBytes = 256 << 30
	// DefaultDownloadFiles is a million.
	DefaultDownloadFiles = 1_000_000
)

// WithLimits sets other [Limits] than the defaults.
func WithLimits(l Limits) Option { return func(o *options) { o.limits = l } }

func (l Limits) validate(f *faults) {
	for name, n := range map[string]int64{
		"ResultBytes": l.ResultBytes, "OutputBytes": l.OutputBytes,
		"KeptOutputBytes": l.KeptOutputBytes, "KeptTotalBytes": l.KeptTotalBytes,
		"DownloadBytes": l.DownloadBytes, "DownloadFiles": int64(l.DownloadFiles),
	} {
		if n < -1 {
			f.add("WithLimits: %s is %d; -1 is for no bound", name, n)
		}
	}
}

func (l Limits) resultBytes() int64 { return bound(l.ResultBytes, DefaultResultBytes) }
func (l Limits) outputBytes() int64 { return bound(l.OutputBytes, DefaultOutputBytes) }
func (l Limits) keptOutputBytes() int64 {
	return bound(l.KeptOutputBytes, DefaultKeptOutputBytes)
}
func (l Limits) keptTotalBytes() int64 { return bound(l.KeptTotalBytes, DefaultKeptTotalBytes) }
func (l Limits) downloadBytes() int64  { return bound(l.DownloadBytes, DefaultDownloadBytes) }
func (l Limits) downloadFiles() int64  { return bound(int64(l.DownloadFiles), DefaultDownloadFiles) }

// transfer returns what bounds the files of one Download, or of an attempt's Outputs.
func (l Limits) transfer() transfer.Limits {
	return transfer.Limits{Bytes: l.downloadBytes(), Files: l.downloadFiles()}
}

// bound returns what a field of Limits stands for.
func bound(n, byDefault int64) int64 {
	switch {
	case n == 0:
		return byDefault
	case n < 0:
		return math.MaxInt64
	}
	return n
}
