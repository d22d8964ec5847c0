package pooltag

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// Prefix begins the name of everything that is made for a pool.
const Prefix = "gputrain-"

// nodeName matches "gputrain-<pool id>-<rank>", with a suffix for a replacement, and after that the times of LongName.
// No last part of a name without times begins with c or x, whatever the pool's ID is.
var nodeName = regexp.MustCompile(`^` + Prefix + `(([a-z][a-z0-9-]{0,39})-([0-9]{1,6})(?:-r[0-9]{1,6})?)(?:-c(` + base36 + `)(?:-x(` + base36 + `))?)?$`)

// base36 matches seconds of Unix time with the digits 0 to 9 and a to z.
const base36 = `[1-9a-z][0-9a-z]{0,6}`

// LongName returns the name of a node's machine for clouds that have no tags: "gputrain-<node>", and after it the time of
// creation and the end of the pool's TTL, if it has one, as "-c<time>-x<time>" in seconds of Unix time to the base 36. It
// omits both times if the name would be longer than limit, unless that is 0.
func (t Tag) LongName(limit int) string {
	name := Prefix + t.Name
	if t.Created.Unix() <= 0 {
		return name
	}
	long := name + "-c" + strconv.FormatInt(t.Created.Unix(), 36)
	if t.Expires.Unix() > 0 {
		long += "-x" + strconv.FormatInt(t.Expires.Unix(), 36)
	}
	if limit > 0 && len(long) > limit || !nodeName.MatchString(long) {
		return name
	}
	return long
}

// ParseName reads the name of a machine, with or without the times of LongName. ok is false if it is not gputrain's.
func ParseName(name string) (pool, node string, rank int, ok bool) {
	t := FromName(name)
	return t.Pool, t.Name, t.Rank, t.Pool != ""
}

// CheckNode returns an error of the kind driver.ErrInvalid for an invalid name of a node of the
// pool.
func CheckNode(poolID, node string) error {
	if t := FromName(Prefix + node); t.Pool != poolID || t.Name != node {
		return fmt.Errorf("%w: %q is not the name of a node of %s", driver.ErrInvalid, node, poolID)
	}
	return nil
}

// FromName returns the tag in the name of a machine, for clouds that have no tags. A name of another version has no times.
func FromName(name string) Tag {
	m := nodeName.FindStringSubmatch(name)
	if m == nil {
		return Tag{}
	}
	t := Tag{Name: m[1], Pool: m[2], Created: moment36(m[4]), Expires: moment36(m[5])}
	t.Rank, _ = strconv.Atoi(m[3])
	return t
}

// moment36 reads a time of LongName. The zero time is none.
func moment36(text string) time.Time {
	s, err := strconv.ParseInt(text, 36, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(s, 0)
}

// SharedName returns the name of what a pool's machines share.
func SharedName(poolID string) string { return Prefix + poolID }

// PoolOf reads a name that SharedName has made.
func PoolOf(name string) (poolID string, ok bool) {
	id, ok := strings.CutPrefix(name, Prefix)
	return id, ok && poolForm.MatchString(id)
}
