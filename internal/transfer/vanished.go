package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// errReplaced means that what was listed as a file is something else now, such as a folder, a link or a pipe.
var errReplaced = errors.New("is no longer a file")

// isVanished reports whether an error says that what was listed a moment ago is not there any more: it was removed, or
// something else is in its place, or in that of a folder above it.
func isVanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, errReplaced)
}

// A vanished has the names of what vanished while a folder was listed and sent, as files of editors and caches do. A nil
// one takes none: there the error stands.
type vanished struct {
	mu    sync.Mutex
	names []string
}

// takes reports whether an error is only that something vanished, and keeps its name. Its methods may be called
// concurrently.
func (v *vanished) takes(name string, err error) bool {
	if v == nil || !isVanished(err) {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.names = append(v.names, name)
	return true
}

// String says what vanished, with the first few names. It is empty if nothing did.
func (v *vanished) String() string {
	const few = 5
	v.mu.Lock()
	defer v.mu.Unlock()
	slices.Sort(v.names)
	names := slices.Compact(v.names)
	if len(names) == 0 {
		return ""
	}
	quoted := make([]string, min(few, len(names)))
	for i := range quoted {
		quoted[i] = fmt.Sprintf("%q", names[i])
	}
	text := "left out, as it vanished while the folder was sent: " + strings.Join(quoted, ", ")
	if more := len(names) - len(quoted); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
