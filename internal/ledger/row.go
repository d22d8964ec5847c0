package ledger

import (
	"fmt"
	"slices"
	"time"
)

// Schema is the version of the ledger's form that this program writes.
const Schema = 1

// A Header says what a pool is. It has no place for a secret.
type Header struct {
	Schema        int           `json:"schema"`
	Pool          string        `json:"pool"` // its ID
	Name          string        `json:"name,omitempty"`
	Provider      string        `json:"provider,omitempty"`
	Account       string        `json:"account,omitempty"`
	Owner         string        `json:"owner,omitempty"` // who made the pool
	Created       time.Time     `json:"created,omitzero"`
	Expires       time.Time     `json:"expires,omitzero"`
	Lease         time.Duration `json:"leaseNanoseconds,omitempty"`
	AuthorizedKey string        `json:"authorizedKey,omitempty"`
	Members       []string      `json:"members,omitempty"` // of a group of providers, their keys
}

// A Row is one thing that the pool makes, and what became of it. It has no place
// for a secret.
type Row struct {
	// Name is unique in the pool: a machine's name, "shared" for all that Prepare
	// makes, or kind and name of one thing of that. Kind is "machine", "shared", or
	// what that one thing is: "network", "key".
	Name         string        `json:"name"`
	Kind         string        `json:"kind"`
	Rank         int           `json:"rank"`
	ID           string        `json:"id,omitempty"`
	Region       string        `json:"region,omitempty"`
	InstanceType string        `json:"instanceType,omitempty"`
	Token        string        `json:"token,omitempty"`     // that makes the create call idempotent
	HourlyUSD    *float64      `json:"hourlyUSD,omitempty"` // nil means not known
	Spot         bool          `json:"spot,omitempty"`
	BillingUnit  time.Duration `json:"billingUnitNanoseconds,omitempty"`
	HostKeys     []string      `json:"hostKeys,omitempty"`
	Root         string        `json:"root,omitempty"`   // the node's folder, once leased
	Member       string        `json:"member,omitempty"` // of a group of providers, whose it is
	State        State         `json:"state"`
	Intended     time.Time     `json:"intended,omitzero"`
	Created      time.Time     `json:"created,omitzero"`
	Leased       time.Time     `json:"leased,omitzero"`
	Ending       time.Time     `json:"ending,omitzero"`
	Gone         time.Time     `json:"gone,omitzero"`
	Note         string        `json:"note,omitempty"`
}

// A State is where a row is in its life. It only ever goes on, but for one that
// is gone: found after all it is Created again, and asked for anew Intended.
type State int

const (
	// Intended is about to be asked for: it may exist.
	Intended State = iota
	// Created exists, as its provider says.
	Created
	// Leased ends itself when its lease runs out.
	Leased
	// Ending is asked to end.
	Ending
	// Gone does not exist, as its provider says.
	Gone
)

var stateNames = [...]string{"intended", "created", "leased", "ending", "gone"}

// String returns the state in lower case: "leased".
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return stateNames[s]
}

// MarshalText returns what String does.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText returned.
func (s *State) UnmarshalText(b []byte) error {
	for i, name := range stateNames {
		if string(b) == name {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a row's state", b)
}

// own returns r with nothing that its caller can still change.
func (r Row) own() Row {
	r.HostKeys = slices.Clone(r.HostKeys)
	if r.HourlyUSD != nil {
		usd := *r.HourlyUSD
		r.HourlyUSD = &usd
	}
	return r
}

// merged returns r with all that is known of it by now: what now has, and its
// state and times stay r's.
func (r Row) merged(now Row) Row {
	set := func(to *string, s string) {
		if s != "" {
			*to = s
		}
	}
	set(&r.ID, now.ID)
	set(&r.Region, now.Region)
	set(&r.InstanceType, now.InstanceType)
	set(&r.Token, now.Token)
	set(&r.Root, now.Root)
	set(&r.Note, now.Note)
	r.Spot = r.Spot || now.Spot
	if now.HourlyUSD != nil {
		r.HourlyUSD = now.HourlyUSD
	}
	if now.BillingUnit != 0 {
		r.BillingUnit = now.BillingUnit
	}
	if now.HostKeys != nil {
		r.HostKeys = now.HostKeys
	}
	return r
}

// enter returns r in a state, from a time on.
func (r Row) enter(s State, at time.Time) Row {
	entered := func(to *time.Time) {
		if to.IsZero() {
			*to = at
		}
	}
	switch s {
	case Intended:
		entered(&r.Intended)
		r.Created, r.Leased, r.Ending, r.Gone = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	case Created:
		entered(&r.Created)
		r.Ending, r.Gone = time.Time{}, time.Time{}
	case Leased:
		entered(&r.Leased)
	case Ending:
		entered(&r.Ending)
	case Gone:
		entered(&r.Gone)
	}
	r.State = s
	return r
}
