package transfer

import (
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"strings"
)

// Links decides about a symbolic link that leads out of the copied folder. An absolute link always counts as such. The
// numbers are kept in journals.
type Links int

const (
	// RefuseOutside fails with an error that wraps ErrOutsideLink.
	RefuseOutside Links = iota
	// SkipOutside leaves such links out.
	SkipOutside
	// KeepOutside makes them as they are. It is for Download.
	KeepOutside
	// FollowOutside sends the content that they lead to. It is for Upload and Sync.
	FollowOutside
)

// ErrOutsideLink means that links lead out of the folder to be copied.
var ErrOutsideLink = errors.New("link leads outside")

// outside is a list of links that lead out. It keeps the first few.
type outside struct {
	links []string
	count int
}

func (o *outside) add(name, target string) {
	const few = 10
	if o.count++; o.count <= few {
		o.links = append(o.links, fmt.Sprintf("%q -> %q", name, target))
	}
}

// err returns nil if there are none.
func (o *outside) err(what string) error {
	if o.count == 0 {
		return nil
	}
	names := strings.Join(o.links, ", ")
	if more := o.count - len(o.links); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("%w: %s: %s", ErrOutsideLink, what, names)
}

// staysBelow reports whether a link, by its text alone, leads to a place in the folder that name is relative to. No
// folder above the link may be a link. A ".." after a name may climb from wherever that name leads: only those at the
// start are certain to be harmless.
func staysBelow(name, target string) bool {
	if target == "" || path.IsAbs(target) || runtime.GOOS == "windows" && strings.ContainsAny(target, `\:`) {
		return false
	}
	above := strings.Count(path.Clean(name), "/") // number of folders above the link
	named := false
	for element := range strings.SplitSeq(target, "/") {
		switch element {
		case "", ".":
		case "..":
			if above--; named || above < 0 {
				return false
			}
		default:
			named = true
		}
	}
	return true
}

// leadsOut reports whether a name in root leads out of it by any number of links.
func leadsOut(root *os.Root, local string) bool {
	_, err := root.Stat(local)
	if err == nil {
		return false
	}
	_, climbed := root.Stat("..")
	return errors.Is(err, errors.Unwrap(climbed))
}
