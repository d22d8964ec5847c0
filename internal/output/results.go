package output

import (
	"io"
)

// Limits bound the bytes of output that are kept.
type Limits struct {
	// Stream bounds what is kept of each stream of an attempt, in memory and on disk.
	Stream int64
	// StreamMemory bounds what is kept in memory of each stream of an attempt.
	StreamMemory int64
	// Memory bounds what is kept in memory for all tasks together whose shares were not returned. The first 4 KiB of
	// each stream are kept in any case.
	Memory int64
}

// Results keep the output of a pool's attempts: in memory within limits, and in a folder on this computer what is
// longer, and files that tasks bring back.
type Results struct {
	*Dir
	memory memory
	stream int64
}

// NewResults returns the results that have their files in a folder.
func NewResults(dir *Dir, l Limits) *Results {
	return &Results{Dir: dir, memory: memory{stream: l.StreamMemory, all: l.Memory}, stream: l.Stream}
}

// Spools returns what keeps the two streams of an attempt, within a share of the memory. What is kept is also written to
// stdout and stderr, whose errors do not count.
func (r *Results) Spools(share *Share, attempt string, stdout, stderr io.Writer) (out, err *Spool) {
	spool := func(name string, also io.Writer) *Spool {
		return &Spool{results: r, share: share, attempt: attempt, name: name, most: r.stream, also: also}
	}
	return spool("stdout", stdout), spool("stderr", stderr)
}
