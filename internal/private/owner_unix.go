//go:build unix

package private

import (
	"io/fs"
	"os"
	"syscall"
)

// openFlags refuse links, and do not wait for the other end of a pipe.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// Owned reports whether a file belongs to this user.
func Owned(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}

func othersWrite(info fs.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }

// trusted reports whether a file belongs to this user or the system.
func trusted(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (s.Uid == 0 || int(s.Uid) == os.Geteuid() || isUnmapped(s.Uid))
}

// anyoneRenames reports whether every user can replace the entries of a folder.
func anyoneRenames(info fs.FileInfo) bool {
	return info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0
}
