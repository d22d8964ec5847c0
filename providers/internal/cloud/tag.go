package cloud

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
)

// Prefix begins the name of everything that is made for a pool.
const Prefix = "gputrain-"

// A Tag is what a thing in the cloud says of what it was made for.
type Tag struct {
	Pool, Owner string
	// Name and Rank are the node's. A thing that is no machine has none.
	Name    string
	Rank    int
	Lease   time.Duration
	Created time.Time
	Expires time.Time
	Until   time.Time // Resource.LeaseUntil
	// HostKey is the machine's public host key, where it was injected.
	HostKey string
}

func tagOf(pool gputrain.PoolInfo, n gputrain.NodeRequest, now time.Time) Tag {
	t := PoolTag(pool, now)
	t.Name, t.Rank, t.HostKey = n.Name, n.Rank, publicKey(n.HostKey.Public)
	return t
}

// PoolTag is the tag of what a pool's machines share.
func PoolTag(pool gputrain.PoolInfo, now time.Time) Tag {
	return Tag{Pool: pool.ID, Owner: pool.Owner, Lease: pool.Lease, Expires: pool.Expires, Created: now}
}

// publicKey is a key without its comment.
func publicKey(line string) string {
	fields := strings.Fields(line)
	return strings.Join(fields[:min(len(fields), 2)], " ")
}

// Pairs returns the tag as values by key, for clouds whose tags are such: eight at most,
// keys of 17 characters and values of 128 at most. The owner is left out where it is longer. Times
// and the lease are in seconds; what is zero has no key.
func (t Tag) Pairs() map[string]string {
	p := map[string]string{Prefix + "pool": t.Pool}
	set := func(key, value string) {
		if value != "" && value != "0" && len(value) <= 127 {
			p[Prefix+key] = value
		}
	}
	unix := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return strconv.FormatInt(at.Unix(), 10)
	}
	set("node", t.Name)
	set("owner", t.Owner)
	set("lease", strconv.FormatFloat(math.Ceil(t.Lease.Seconds()), 'f', -1, 64))
	set("created", unix(t.Created))
	set("expires", unix(t.Expires))
	set("until", unix(t.Until))
	set("host-key", t.HostKey)
	return p
}

// FromPairs reads what Pairs has written. Without a Pool it is not gputrain's.
func FromPairs(p map[string]string) Tag {
	number := func(key string, most int64) int64 {
		n, err := strconv.ParseInt(p[Prefix+key], 10, 64)
		if err != nil || n < 0 || n > most {
			return 0
		}
		return n
	}
	moment := func(key string) time.Time {
		if n := number(key, 1<<40); n > 0 {
			return time.Unix(n, 0)
		}
		return time.Time{}
	}
	t := Tag{
		Pool: p[Prefix+"pool"], Owner: p[Prefix+"owner"], Name: p[Prefix+"node"], HostKey: p[Prefix+"host-key"],
		Lease:   time.Duration(number("lease", int64(math.MaxInt64/time.Second))) * time.Second,
		Created: moment("created"), Expires: moment("expires"), Until: moment("until"),
	}
	if !poolForm.MatchString(t.Pool) {
		return Tag{}
	}
	if pool, _, rank, ok := ParseName(Prefix + t.Name); ok && pool == t.Pool {
		t.Rank = rank
	}
	return t
}

// Words returns the tag as a list, for clouds whose tags are single words: "gputrain", and
// of each pair "gputrain-pool-p7x2". What is neither a letter nor a digit, a dash or a dot is
// written as an underscore and two digits: _2F is a slash.
func (t Tag) Words() []string {
	words := []string{strings.TrimSuffix(Prefix, "-")}
	for _, key := range keys {
		if v, ok := t.Pairs()[Prefix+key]; ok {
			words = append(words, Prefix+key+"-"+escape(v))
		}
	}
	return words
}

func escape(value string) string {
	return special.ReplaceAllStringFunc(value, func(c string) string {
		var b strings.Builder
		for i := range len(c) { // a letter may have several bytes
			fmt.Fprintf(&b, "_%02X", c[i])
		}
		return b.String()
	})
}

var (
	keys    = []string{"pool", "node", "owner", "lease", "created", "expires", "until", "host-key"}
	special = regexp.MustCompile(`[^A-Za-z0-9.-]`)
	escaped = regexp.MustCompile(`_[0-9A-F]{2}`)
)

// FromWords reads what Words has written, among whatever else there is.
func FromWords(words []string) Tag {
	p := map[string]string{}
	for _, w := range words {
		for _, key := range keys {
			if v, ok := strings.CutPrefix(w, Prefix+key+"-"); ok {
				p[Prefix+key] = escaped.ReplaceAllStringFunc(v, func(c string) string {
					n, _ := strconv.ParseUint(c[1:], 16, 8)
					return string([]byte{byte(n)})
				})
			}
		}
	}
	return FromPairs(p)
}

// nodeName is "gputrain-<pool id>-<rank>", with a suffix for a replacement.
var nodeName = regexp.MustCompile(`^` + Prefix + `(([a-z][a-z0-9-]{0,39})-([0-9]{1,6})(?:-r[0-9]{1,6})?)$`)

// ParseName reads the name of a machine, and reports whether it is one of gputrain's.
func ParseName(name string) (pool, node string, rank int, ok bool) {
	m := nodeName.FindStringSubmatch(name)
	if m == nil {
		return "", "", 0, false
	}
	rank, _ = strconv.Atoi(m[3])
	return m[2], m[1], rank, true
}

// FromName is what the name of a machine says, for clouds that have no tags.
func FromName(name string) Tag {
	pool, node, rank, _ := ParseName(name)
	return Tag{Pool: pool, Name: node, Rank: rank}
}

// SharedName is the name of what a pool's machines share.
func SharedName(poolID string) string { return Prefix + poolID }

// PoolOf reads a name that SharedName has made.
func PoolOf(name string) (poolID string, ok bool) {
	id, ok := strings.CutPrefix(name, Prefix)
	return id, ok && poolForm.MatchString(id)
}

// Resource is what a tag says of what is held for a pool. The price is not in it: that of
// what is no machine is zero, or not known.
func (t Tag) Resource(provider, kind, id string) gputrain.Resource {
	return gputrain.Resource{
		Provider: provider, Kind: kind, ID: id, Name: t.Name,
		Pool: t.Pool, Owner: t.Owner, Created: t.Created, Lease: t.Lease, Expires: t.Expires, LeaseUntil: t.Until,
	}
}
