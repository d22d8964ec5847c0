package inventory

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/owner"
	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/providers/driver"
)

// A tag is no proof: others of the account can write it too. So each machine that a provider lists with a pool's tag is judged by
// what it says itself, in two questions: is it the pool's (claim), and is its program dead (verdictOn).

// A claim is what is known of a pool, by which its machines are told from a stranger's that have its tag.
type claim struct {
	pool    string
	since   time.Time            // when the pool was opened; zero if no ledger here says so
	holders []string             // the programs that have had it, by its ledger; nil if they are not all known
	asked   map[string]time.Time // when machines were asked for, by name, of which it is not known whether they were made
}

// claimOf returns what is known of a pool. l is nil if there is no ledger here.
func claimOf(pool string, l *ledger.Ledger, asked map[string]time.Time) claim {
	c := claim{pool: pool, asked: asked}
	if l == nil {
		return c
	}
	snap := l.Snapshot()
	c.since = snap.Created
	if len(snap.Damage) == 0 {
		c.holders = snap.Holders
	}
	return c
}

// nodeName matches what follows the pool's ID in the names that machines.name gives.
var nodeName = regexp.MustCompile(`^-[0-9]{1,6}(-r[0-9]{1,6})?$`)

// objection returns why a listed machine is not the pool's though it has its tag, or "": tag, name, token and age must agree. The
// token is what a stranger cannot guess: the random part of the pool's ID, which tag and name have, and the program in the tag. The
// pool's ledger must know that program.
func (c claim) objection(r driver.Resource, at time.Time) string {
	rest, named := strings.CutPrefix(r.Name, c.pool)
	made := func() string { return "it was made at " + r.Created.UTC().Format(time.RFC3339) }
	switch {
	case r.Pool != c.pool:
		return fmt.Sprintf("the provider lists it with the tag of pool %q", r.Pool)
	case r.Doubt != "":
		return r.Doubt
	case !named || !nodeName.MatchString(rest):
		return fmt.Sprintf("its name %q is none that the pool gives", r.Name)
	case c.holders != nil && r.Owner != "" && !slices.Contains(c.holders, r.Owner):
		return fmt.Sprintf("it names the program %q, which has never had the pool", r.Owner)
	case r.Created.IsZero():
		return ""
	case r.Created.After(at.Add(clockSkew)):
		return made() + ", which is in the future"
	case r.Created.Before(c.since.Add(-clockSkew)):
		return made() + ", before the pool was opened"
	case r.Created.Before(c.asked[r.Name].Add(-clockSkew)):
		return made() + ", before the pool asked for a machine of its name"
	}
	return ""
}

// strange returns the error for a machine that is left alone because of an objection.
func strange(r driver.Resource, pool, why string) error {
	text := fmt.Sprintf("%s %s", r.Kind, r.ID)
	if r.Region != "" {
		text += " in " + r.Region
	}
	return &driver.Error{
		Provider: r.Provider, Op: "list", Err: fmt.Errorf("%s has the tag of pool %s, and is left alone: %s", printable.Text(text), pool, printable.Text(why)),
		Hint: "it may cost money: if it is yours and not in use, end it by hand",
	}
}

// A verdict says what is certain about the program of a resource's pool.
type verdict int

const (
	unsure  verdict = iota // it may live
	lives                  // it lives, or its lease or its first minutes are not over
	over                   // it is dead, or its TTL is over
	endless                // its machine notes a lease that no program notes
)

// longestLease is more than any lease that a program needs. A longer one in a tag counts as this.
const longestLease = 366 * 24 * time.Hour

// leaseOf returns the lease in a resource's tag, within bounds.
func leaseOf(r driver.Resource) time.Duration { return min(max(r.Lease, 0), longestLease) }

// verdictOn judges a resource of a pool that only its provider knows, by its own tag. marks is whether programs record there that
// they live. A living owner decides; a dead one does not, since another program may have taken the pool up, which its first
// owner's mark does not show. Times that are no later than 1970 count as missing.
func verdictOn(r driver.Resource, marks bool, at time.Time) verdict {
	if program, err := owner.Parse(r.Owner); err == nil {
		if alive, known := program.Alive(); known && alive {
			return lives
		}
	}
	lease := leaseOf(r)
	expires, until := r.Expires, r.LeaseUntil
	switch {
	case expires.Unix() > 0 && at.After(expires.Add(clockSkew)):
		return over
	case until.After(at.Add(lapse(longestLease) + clockSkew)), lease > 0 && until.After(at.Add(lapse(lease)+clockSkew)):
		return endless
	case until.Unix() > 0 && at.After(until.Add(clockSkew)):
		return over
	case until.Unix() > 0:
		return lives
	case r.Created.IsZero(), lease == 0:
		return unsure
	case isUp(r) && !marks:
		return unsure // it may be in use: the machine itself ends what is left on it
	case at.After(r.Created.Add(lease + driver.DefaultProvisionTimeout + clockSkew)):
		return over
	}
	return lives
}

// isUp reports whether a resource is a machine that may run.
func isUp(r driver.Resource) bool {
	switch r.State {
	case driver.InstanceStopped, driver.InstanceFailed, driver.InstancePreempted, driver.InstanceTerminated:
		return false
	}
	return r.Kind == machineKind
}
