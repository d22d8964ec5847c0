package slurm

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/hops"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// commentMark begins the comment of a pool's job.
const commentMark = "gputrain/1"

// commentForm writes what a job's comment has of its pool. The node's name is the job's. Programs of other versions read
// it: see testdata/golden.
var commentForm = pooltag.Form{Keys: []pooltag.Key{
	{Field: pooltag.Pool, Name: "pool"}, {Field: pooltag.Owner, Name: "owner"}, {Field: pooltag.Rank, Name: "rank"}, {Field: pooltag.Lease, Name: "lease"},
	{Field: pooltag.Expires, Name: "expires"}, {Field: pooltag.Created, Name: "created"}, {Field: pooltag.Until, Name: "until"},
}}

// userTag begins the key of a user's own tag.
const userTag = "tag:"

// A comment is what a job's comment says: words "key=value" without blanks. The job adds the address, the host key and
// the folder of its SSH server, or the reason why it has none.
type comment struct {
	pooltag.Tag
	tags   map[string]string // the user's own
	addr   string            // host:port
	key    string            // in authorized_keys form
	dir    string
	failed string // a code of job.sh
}

// String writes the comment. It leaves out what the job adds.
func (c comment) String() string {
	words := []string{commentMark}
	for _, p := range commentForm.Pairs(c.Tag) {
		words = append(words, p.Key+"="+p.Value)
	}
	for _, name := range slices.Sorted(maps.Keys(c.tags)) {
		words = append(words, userTag+url.QueryEscape(name)+"="+url.QueryEscape(c.tags[name]))
	}
	return strings.Join(words, " ")
}

// parseComment reads the comment of a job. If a site has put its own text into its place, the job's name has the pool. A
// job that is no pool's has no Pool.
func parseComment(jobName, text string) comment {
	named := pooltag.FromName(jobName)
	if named.Pool == "" {
		return comment{}
	}
	values := map[string]string{}
	c := comment{tags: map[string]string{}}
	if rest, ok := strings.CutPrefix(text+" ", commentMark+" "); ok {
		for word := range strings.FieldsSeq(rest) {
			key, value, _ := strings.Cut(word, "=")
			name, isTag := strings.CutPrefix(key, userTag)
			name, nameErr := url.QueryUnescape(name)
			decoded, valueErr := url.QueryUnescape(value)
			switch {
			case !isTag:
				values[key] = value
			case nameErr == nil && valueErr == nil:
				c.tags[name] = decoded
			}
		}
	}
	if c.Tag = commentForm.ReadMap(values); c.Pool != named.Pool {
		return comment{Tag: named} // of another program, or rewritten
	}
	c.Name = named.Name
	if values["rank"] == "" {
		c.Rank = named.Rank
	}
	c.addr, c.dir, c.failed = values["addr"], values["dir"], values["failed"]
	c.key = strings.Replace(values["key"], ",", " ", 1)
	if !isEndpoint(c.addr, c.key) {
		c.addr, c.key = "", ""
	}
	if !plainPath.MatchString(c.dir) {
		c.dir = ""
	}
	return c
}

// isEndpoint reports whether an address and a host key are whole.
func isEndpoint(addr, key string) bool {
	host, port, err := hops.Split(addr)
	kind, blob, _ := strings.Cut(key, " ")
	return err == nil && host != "" && port > 0 && port < 1<<16 && strings.HasPrefix(kind, "ssh-") && blob != ""
}

// commentOf returns the comment of a node's job.
func commentOf(pool driver.PoolInfo, n driver.NodeRequest, now time.Time) comment {
	tag := pooltag.OfNode(pool, n, now)
	tag.HostKey = ""
	return comment{Tag: tag, tags: pool.Tags}
}
