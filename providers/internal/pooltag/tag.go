package pooltag

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A Tag identifies the owner and purpose of a thing in the cloud. A zero field is absent.
// Without a Pool the thing is not gputrain's.
type Tag struct {
	Pool, Owner string
	// Name and Rank are the node's. Only machines have them.
	Name string
	Rank int
	// Lease is rounded to seconds by most forms.
	Lease   time.Duration
	Created time.Time
	Expires time.Time
	Until   time.Time // Resource.LeaseUntil
	// HostKey is the machine's public host key without a comment, if it was injected.
	HostKey string
}

// Of returns the tag of things that a pool's machines share.
func Of(pool driver.PoolInfo, now time.Time) Tag {
	return Tag{Pool: pool.ID, Owner: pool.Owner, Lease: pool.Lease, Expires: pool.Expires, Created: now}
}

// OfNode returns the tag of a node's machine.
func OfNode(pool driver.PoolInfo, n driver.NodeRequest, now time.Time) Tag {
	t := Of(pool, now)
	t.Name, t.Rank, t.HostKey = n.Name, n.Rank, PublicKey(n.HostKey.Public)
	return t
}

// PublicKey returns a key in authorized_keys form without its comment.
func PublicKey(line string) string {
	fields := strings.Fields(line)
	return strings.Join(fields[:min(len(fields), 2)], " ")
}

// Resource describes a thing of a pool by its tag. A tag has no price: Resource.HourlyUSD is
// unknown.
func (t Tag) Resource(provider, kind, id string) driver.Resource {
	return driver.Resource{
		Provider: provider, Kind: kind, ID: id, Name: t.Name,
		Pool: t.Pool, Owner: t.Owner, Created: t.Created, Lease: t.Lease, Expires: t.Expires, LeaseUntil: t.Until,
	}
}

var poolForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// CheckPool returns an error of the kind driver.ErrInvalid for an invalid ID of a pool.
func CheckPool(id string) error {
	if !poolForm.MatchString(id) {
		return fmt.Errorf("%w: %q is not the ID of a pool", driver.ErrInvalid, id)
	}
	return nil
}
