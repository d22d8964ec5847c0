package transfer

import (
	"fmt"
	"math"
)

// Limits bound what a node sends for one call. A zero field means no bound.
type Limits struct {
	Bytes int64 // of content
	Files int64 // files, folders and links

	usedBytes, usedFiles int64 // by earlier calls
}

// Less returns the limits for a call that shares them with a call that brought files.
func (l Limits) Less(files []File) Limits {
	l.usedFiles += int64(len(files))
	for _, f := range files {
		l.usedBytes += f.Size
	}
	return l
}

// bytes and files return what is left.
func (l Limits) bytes() int64 { return orNone(l.Bytes) - l.usedBytes }
func (l Limits) files() int64 { return orNone(l.Files) - l.usedFiles }

func orNone(n int64) int64 {
	if n == 0 {
		return math.MaxInt64
	}
	return n
}

// A LimitError means that a node exceeded one of the Limits.
type LimitError struct {
	Files bool // the limit is Limits.Files, else Limits.Bytes
	Most  int64
}

func (e *LimitError) Error() string {
	if e.Files {
		return fmt.Sprintf("the node has more than %d files, folders and links", e.Most)
	}
	return fmt.Sprintf("the node has more than %d bytes", e.Most)
}
