package pooltag

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// Prefix begins the name of everything that is made for a pool.
const Prefix = "gputrain-"

// nodeName matches "gputrain-<pool id>-<rank>", with a suffix for a replacement.
var nodeName = regexp.MustCompile(`^` + Prefix + `(([a-z][a-z0-9-]{0,39})-([0-9]{1,6})(?:-r[0-9]{1,6})?)$`)

// ParseName reads the name of a machine. ok is false if it is not gputrain's.
func ParseName(name string) (pool, node string, rank int, ok bool) {
	m := nodeName.FindStringSubmatch(name)
	if m == nil {
		return "", "", 0, false
	}
	rank, _ = strconv.Atoi(m[3])
	return m[2], m[1], rank, true
}

// CheckNode returns an error of the kind driver.ErrInvalid for an invalid name of a node of the
// pool.
func CheckNode(poolID, node string) error {
	if pool, _, _, ok := ParseName(Prefix + node); !ok || pool != poolID {
		return fmt.Errorf("%w: %q is not the name of a node of %s", driver.ErrInvalid, node, poolID)
	}
	return nil
}

// FromName returns the tag in the name of a machine, for clouds that have no tags.
func FromName(name string) Tag {
	pool, node, rank, _ := ParseName(name)
	return Tag{Pool: pool, Name: node, Rank: rank}
}

// SharedName returns the name of what a pool's machines share.
func SharedName(poolID string) string { return Prefix + poolID }

// PoolOf reads a name that SharedName has made.
func PoolOf(name string) (poolID string, ok bool) {
	id, ok := strings.CutPrefix(name, Prefix)
	return id, ok && poolForm.MatchString(id)
}
