package transfer

import (
	"io/fs"
	"os"
)

// A Mask has the permissions that what comes from a node may have here.
type Mask fs.FileMode

// widest is before the user's umask: nothing is writable for all because a node says so.
const widest Mask = 0o775

// newFolder is the mode, before the umask, of a folder that the node has not described.
var newFolder = widest.Of(fs.ModeDir | 0o777)

// Of returns the mode here of a file or folder that has a mode on its node: its permissions as far as the mask has them.
// The owner may always read and write. There are no other bits: setuid, setgid and sticky are not for a node to give.
func (m Mask) Of(node fs.FileMode) fs.FileMode {
	owner := fs.FileMode(0o600)
	if node.IsDir() {
		owner = 0o700
	}
	return node.Perm()&fs.FileMode(m&widest) | owner
}

// MaskIn returns what the user's umask, or a default ACL, leaves of permissions in a folder. It makes a folder there and
// removes it, since a process cannot ask for its umask without changing it.
func MaskIn(root *os.Root) (Mask, error) {
	name := stageName()
	if err := root.Mkdir(name, 0o777); err != nil {
		return 0, err
	}
	info, err := root.Lstat(name)
	if removed := root.Remove(name); err == nil {
		err = removed
	}
	if err != nil {
		return 0, err
	}
	return Mask(info.Mode().Perm()), nil
}
