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

// base36 matches a number of seconds with the digits 0 to 9 and a to z.
const base36 = `[1-9a-z][0-9a-z]{0,6}`

// LongName returns the name of a node's machine for clouds that have no tags: "gputrain-<node>", and after it the time of
// creation and, if the pool has a TTL, the time from then to its end, as "-c<seconds of Unix time>-x<seconds>" to the base
// 36. It omits both if the name would be longer than limit, unless that is 0.
func (t Tag) LongName(limit int) string {
	name := Prefix + t.Name
	if t.Created.Unix() <= 0 {
		return name
	}
	long := name + "-c" + strconv.FormatInt(t.Created.Unix(), 36)
	if !t.Expires.IsZero() {
		long += "-x" + strconv.FormatInt(max(t.Expires.Unix()-t.Created.Unix(), 1), 36)
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
	t := Tag{Name: m[1], Pool: m[2]}
	t.Rank, _ = strconv.Atoi(m[3])
	if created, err := strconv.ParseInt(m[4], 36, 64); err == nil {
		t.Created = time.Unix(created, 0)
	}
	if life, err := strconv.ParseInt(m[5], 36, 64); err == nil {
		t.Expires = t.Created.Add(time.Duration(life) * time.Second)
	}
	return t
}

// SharedName returns the name of what a pool's machines share.
func SharedName(poolID string) string { return Prefix + poolID }

// PoolOf reads a name that SharedName has made.
func PoolOf(name string) (poolID string, ok bool) {
	id, ok := strings.CutPrefix(name, Prefix)
	return id, ok && poolForm.MatchString(id)
}
