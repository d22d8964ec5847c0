//go:build unix

package ledger

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// ours reports what is wrong with a folder that is to be this user's alone.
func ours(info fs.FileInfo) error {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return errors.New("it is another user's; name a folder of your own")
	}
	if info.Mode().Perm()&0o022 != 0 {
		return errors.New("others can write to it; make it yours alone (chmod 700), or name another folder")
	}
	return nil
}
