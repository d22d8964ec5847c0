//go:build unix

package private

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// maxLinks bounds the links in one path, as the system does.
const maxLinks = 40

// Check returns an error if another user can change a file or folder, change a folder's entries, or
// replace either. That is so if the path, or a parent of it, is a file, folder or link of theirs,
// or has a mode that lets others write. A parent may be writable to all if its sticky bit protects
// its entries. A group whose only member is this user counts as this user.
func (s *Sealed) Check(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at, links := "/", 0
	for left := "." + path; ; {
		first, rest, more := strings.Cut(left, "/")
		next := filepath.Join(at, first) // at has no links
		to, err := s.look(next, more)
		switch {
		case err != nil:
			return err
		case to == "":
			at = next
		case links == maxLinks:
			return fmt.Errorf("%s: too many links", path)
		default:
			links++
			if filepath.IsAbs(to) {
				at = "/"
			}
			rest, more = to+"/"+rest, true
			rest = strings.TrimSuffix(rest, "/")
		}
		if !more {
			return nil
		}
		left = rest
	}
}

// look checks one file, folder or link, and returns the target of a link.
func (s *Sealed) look(path string, way bool) (to string, err error) {
	key := sealedPath{path, way}
	if s.fine[key] {
		return "", nil
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return "", err
	case !ownedByUsOrRoot(info) && !(way && trusted(info)):
		return "", fmt.Errorf("%s is another user's", path)
	case info.Mode()&fs.ModeSymlink != 0:
		return os.Readlink(path)
	case !info.IsDir() && !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is neither a file nor a folder", path)
	case othersChange(path, info) && !(way && info.Mode()&fs.ModeSticky != 0):
		return "", fmt.Errorf("%s can be written to by other users (chmod go-w)", path)
	}
	if s.fine == nil {
		s.fine = map[sealedPath]bool{}
	}
	s.fine[key] = true
	return "", nil
}

func ownedByUsOrRoot(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (s.Uid == 0 || int(s.Uid) == os.Geteuid())
}

// othersChange reports whether users other than this one can write to a file.
func othersChange(path string, info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	return mode&0o002 != 0 || mode&0o020 != 0 && !privateGroup(path, info)
}

// privateGroup reports whether this user is the only member of a file's group. Many systems make
// such a group for each user, and files that the group can write to.
func privateGroup(path string, info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Gid) == os.Getegid() && ownGroup() && !hasACL(path)
}

// ownGroup reports whether this user is the only member of the group of this process, by the
// system's files. The members of a group that is defined elsewhere are unknown.
var ownGroup = sync.OnceValue(func() bool {
	gid, uid := strconv.Itoa(os.Getegid()), strconv.Itoa(os.Geteuid())
	groups, err := os.ReadFile("/etc/group")
	if err != nil {
		return false
	}
	users, err := os.ReadFile("/etc/passwd")
	return err == nil && loneMember(string(groups), string(users), gid, uid)
})

func loneMember(groups, users, gid, uid string) bool {
	found, name := false, ""
	for line := range strings.Lines(users) {
		switch f := strings.Split(strings.TrimSpace(line), ":"); {
		case len(f) < 4:
		case f[2] == uid:
			name = f[0]
		case f[3] == gid:
			return false
		}
	}
	for line := range strings.Lines(groups) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 || f[2] != gid {
			continue
		}
		found = true
		for member := range strings.SplitSeq(f[3], ",") {
			if member != "" && member != name {
				return false
			}
		}
	}
	return found && name != ""
}
