package ledger

import (
	"fmt"
	"slices"
	"time"
)

// Schema is the version of the ledger's format that this program writes.
const Schema = 1

// A Header describes a pool. It has no field for a secret.
type Header struct {
	Schema        int           `json:"schema"`
	Pool          string        `json:"pool"` // the pool's ID
	Name          string        `json:"name,omitempty"`
	Provider      string        `json:"provider,omitempty"`
	Account       string        `json:"account,omitempty"`
	Owner         string        `json:"owner,omitempty"` // the program that made the pool
	Created       time.Time     `json:"created,omitzero"`
	Expires       time.Time     `json:"expires,omitzero"`
	Lease         time.Duration `json:"leaseNanoseconds,omitempty"`
	AuthorizedKey string        `json:"authorizedKey,omitempty"`
	Members       []string      `json:"members,omitempty"` // the keys of a group's members
}

// A Row describes one thing that the pool makes, and its state. It has no field for a secret.
type Row struct {
	// Name is unique in the pool. It is a machine's name, or "shared" for everything that Prepare
	// makes, or kind and name of one of these resources. Kind is "machine", "shared", or a
	// resource's own kind, such as "network" or "key".
	Name         string   `json:"name"`
	Kind         string   `json:"kind"`
	Rank         int      `json:"rank"`
	ID           string   `json:"id,omitempty"`
	Region       string   `json:"region,omitempty"`
	InstanceType string   `json:"instanceType,omitempty"`
	Token        string   `json:"token,omitempty"`     // makes the create call idempotent
	HourlyUSD    *float64 `json:"hourlyUSD,omitempty"` // nil means not known
	Spot         bool     `json:"spot,omitempty"`
	Billing
	HostKeys []string  `json:"hostKeys,omitempty"`
	Root     string    `json:"root,omitempty"`   // the node's folder, once leased
	Member   string    `json:"member,omitempty"` // the group's member that has it
	State    State     `json:"state"`
	Intended time.Time `json:"intended,omitzero"`
	Created  time.Time `json:"created,omitzero"`
	Leased   time.Time `json:"leased,omitzero"`
	Ending   time.Time `json:"ending,omitzero"`
	Gone     time.Time `json:"gone,omitzero"`
	Note     string    `json:"note,omitempty"`
}

// A Billing is how a machine is billed.
type Billing struct {
	BillingUnit time.Duration `json:"billingUnitNanoseconds,omitempty"`
	Bill        *Bill         `json:"bill,omitempty"` // nil means that HourlyUSD is all that is known
}

// A Bill is what a machine costs beside its present price. It does not change: a row gets another one.
type Bill struct {
	// Parts are those of the present price.
	Parts []Part `json:"parts,omitempty"`
	// A GiB that it has received, or sent, costs so much. Received and Sent are bytes.
	IngressUSD float64 `json:"ingressUSD,omitempty"`
	EgressUSD  float64 `json:"egressUSD,omitempty"`
	Received   int64   `json:"received,omitempty"`
	Sent       int64   `json:"sent,omitempty"`
	// Charged are its earlier prices, in the order of time.
	Charged []Charge `json:"charged,omitempty"`
	// Unbilled is since when it is billed no more, if that is not when it was gone.
	Unbilled time.Time `json:"unbilled,omitzero"`
	// Began is since when it is billed, if AfterLaunch is true and it is billed. FromLaunch is the part that is billed before.
	AfterLaunch bool      `json:"billedAfterLaunch,omitempty"`
	FromLaunch  string    `json:"billedFromLaunch,omitempty"`
	Began       time.Time `json:"began,omitzero"`
	// Refunds means that the unused rest of its last unit of billing is given back.
	Refunds bool `json:"refunds,omitempty"`
}

// A Part is a part of a price.
type Part struct {
	Name      string  `json:"name"`
	HourlyUSD float64 `json:"hourlyUSD"`
}

// A Charge is a price, with its parts, until a time.
type Charge struct {
	HourlyUSD *float64  `json:"hourlyUSD,omitempty"` // nil means not known
	Parts     []Part    `json:"parts,omitempty"`
	Until     time.Time `json:"until"`
}

// A State is a stage in a row's life. It only advances, except from Gone: a resource that is found
// after all becomes Created again, and one that is requested again becomes Intended.
type State int

const (
	// Intended rows are about to be requested, and may exist.
	Intended State = iota
	// Created rows exist, as their provider says.
	Created
	// Leased rows end themselves when their lease runs out.
	Leased
	// Ending rows have been asked to end.
	Ending
	// Gone rows do not exist, as their provider says.
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

// own returns a copy of r that shares no memory with the caller's.
func (r Row) own() Row {
	r.HostKeys = slices.Clone(r.HostKeys)
	if r.HourlyUSD != nil {
		usd := *r.HourlyUSD
		r.HourlyUSD = &usd
	}
	return r
}

// merged returns r with the fields that now has, but with the state and times of r.
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
	if now.Bill != nil {
		r.Bill = now.Bill
	}
	return r
}

// enter returns r in state s since a time.
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
