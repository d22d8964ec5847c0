//go:build unix

package private

import (
	"io/fs"
	"os"
	"syscall"
)

// openFlags refuse a link, and do not wait for a pipe's other end.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// Owned reports whether a file is this user's.
func Owned(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}

func othersWrite(info fs.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }

// trusted reports whether a file is this user's or the system's.
func trusted(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (s.Uid == 0 || int(s.Uid) == os.Geteuid() || isUnmapped(s.Uid))
}

// anyoneRenames reports whether every user can exchange what is in a folder.
func anyoneRenames(info fs.FileInfo) bool {
	return info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0
}
