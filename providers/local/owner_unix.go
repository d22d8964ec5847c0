//go:build unix

package local

import (
	"io/fs"
	"os"
	"syscall"
)

// isOurs reports whether a file, or what /proc has of a process, is this user's.
func isOurs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
