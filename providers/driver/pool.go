package driver

import "time"

// A PoolInfo describes a pool to its driver.
type PoolInfo struct {
	// ID is unique: lower-case letters, digits and dashes, at most 40, starting
	// with a letter. It tags everything that is made for the pool.
	ID string
	// Name is the user's name for the pool, by WithName, or "".
	Name string
	// Owner is the program that owns the pool: host, process id and start, as "host/pid/start"
	// in letters, digits, dots, dashes and slashes.
	Owner string
	// Lease bounds how long a machine may run without hearing from the pool's program.
	Lease time.Duration
	// Tags are the user's own tags, for each machine, and each other thing that is billed, if the
	// provider has tags. None means that there are none.
	Tags map[string]string
	// AuthorizedKey is the pool's public key in authorized_keys form.
	AuthorizedKey string
	// Expires is the end of the pool's TTL. Zero means that it has none.
	Expires time.Time
	// Made are the things that Record has recorded and that are not known to be gone.
	Made []Resource
	// Remaining are the IDs of machines that were asked to end and are not confirmed gone, for
	// Release only. Empty means none.
	Remaining []string

	record   func(Resource) error
	settling func(why error, until time.Time)
}

// Record puts a thing that a driver makes beside machines into the pool's ledger: a key, a
// network, a rule, a volume. The driver calls it before the call that makes the thing, with
// what is known by then, at least a Kind and a Name, and again once its ID is known. After an
// error the driver must not make it. Without a ledger Record does nothing.
//
// Recorded things come back as PoolInfo.Made, even after the program's death, so that Release
// removes what the pool has made and nothing that was there before.
func (p PoolInfo) Record(r Resource) error {
	if p.record == nil {
		return nil
	}
	return p.record(r)
}

// WithRecord returns a pool whose Record calls record, for tests of drivers. A pool of
// gputrain.Open writes to its ledger instead.
func (p PoolInfo) WithRecord(record func(Resource) error) PoolInfo {
	p.record = record
	return p
}

// Settling reports that the driver looks for the result of an unanswered call, the reason, and
// the time until which it looks at most: until its provider's lists are complete. The pool
// emits that as an event of state "settling", and does not look itself. A pool that is not from
// gputrain.Open ignores it.
func (p PoolInfo) Settling(why error, until time.Time) {
	if p.settling != nil {
		p.settling(why, until)
	}
}

// WithSettling returns a pool whose Settling calls settling, for tests of drivers.
func (p PoolInfo) WithSettling(settling func(why error, until time.Time)) PoolInfo {
	p.settling = settling
	return p
}
