package vastai

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
)

// A tag is what the label of an instance, or the comment of an SSH key, says of what it
// was made for. There are no other tags, and a label has room for maxLabel characters:
//
//	gputrain:<pool>:<node>:<rank>:<owner>:<lease>:<created>:<expires>:<until>
//
// The node's name is without the pool's at its front; times are seconds, in Unix time
// or of the lease, and empty where there is none.
type tag struct {
	pool, name, owner       string
	rank                    int
	lease                   time.Duration
	created, expires, until time.Time
}

const (
	tagPrefix = "gputrain:"
	maxLabel  = 256
)

var poolName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

func tagOf(pool gputrain.PoolInfo, now time.Time) tag {
	return tag{pool: pool.ID, owner: pool.Owner, lease: pool.Lease, created: now, expires: pool.Expires}
}

// String returns the label. An owner that is too long for it is left out: what is known
// of the lease decides then whether the pool lives.
func (t tag) String() string {
	unix := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return strconv.FormatInt(at.Unix(), 10)
	}
	name, ours := strings.CutPrefix(t.name, t.pool+"-")
	if !ours && name != "" {
		name = "=" + name
	}
	text := func(owner string) string {
		return tagPrefix + strings.Join([]string{
			t.pool, name, strconv.Itoa(t.rank), owner, strconv.FormatFloat(math.Ceil(t.lease.Seconds()), 'f', -1, 64),
			unix(t.created), unix(t.expires), unix(t.until),
		}, ":")
	}
	if label := text(t.owner); len(label) <= maxLabel {
		return label
	}
	return text("")
}

// parseTag reads a label, and reports whether it is one of gputrain's.
func parseTag(label string) (t tag, ok bool) {
	rest, ok := strings.CutPrefix(label, tagPrefix)
	fields := strings.Split(rest, ":")
	if !ok || len(fields) != 8 || !poolName.MatchString(fields[0]) {
		return tag{}, false
	}
	t = tag{pool: fields[0], owner: fields[3]}
	if name, whole := strings.CutPrefix(fields[1], "="); whole {
		t.name = name
	} else if name != "" {
		t.name = t.pool + "-" + name
	}
	number := func(text string, most int64) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > most {
			return 0
		}
		return n
	}
	moment := func(text string) time.Time {
		if n := number(text, 1<<40); n > 0 {
			return time.Unix(n, 0)
		}
		return time.Time{}
	}
	t.rank = int(number(fields[2], math.MaxInt32))
	t.lease = time.Duration(number(fields[4], int64(math.MaxInt64/time.Second))) * time.Second
	t.created, t.expires, t.until = moment(fields[5]), moment(fields[6]), moment(fields[7])
	return t, true
}

// resource is what a tag says of what is held for a pool.
func (t tag) resource(kind, id string) gputrain.Resource {
	return gputrain.Resource{
		Provider: providerName, Kind: kind, ID: id, Name: t.name, HourlyUSD: gputrain.USD(0),
		Pool: t.pool, Owner: t.owner, Created: t.created, Lease: t.lease, Expires: t.expires, LeaseUntil: t.until,
	}
}

func checkPool(id string) error {
	if !poolName.MatchString(id) {
		return fmt.Errorf("%w: %q is not the ID of a pool", gputrain.ErrInvalid, id)
	}
	return nil
}
