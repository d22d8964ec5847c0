package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// An Op is a kind of call to a cloud's API.
type Op string

// The calls that a driver makes. Prepare and release are two calls each: one for
// the network and one for the key.
const (
	OpOpen      Op = "open"
	OpOffers    Op = "offers"
	OpPrepare   Op = "prepare"
	OpLaunch    Op = "launch"
	OpDescribe  Op = "describe"
	OpList      Op = "list"
	OpTerminate Op = "terminate"
	OpRelease   Op = "release"
	OpMarkLease Op = "marklease"
)

// A Kind is what can go wrong with a call.
type Kind int

const (
	// None is nothing.
	None Kind = iota
	// ErrorBefore answers with an internal error (500). Nothing was done.
	ErrorBefore
	// ErrorAfter answers with an internal error (500), and it was done.
	ErrorAfter
	// Lost does it and cuts the connection in place of an answer.
	Lost
	// Refused cuts the connection before anything is done.
	Refused
	// Delay does it only after Fault.For, and answers then. It is done also where
	// the caller does not wait for that.
	Delay
	// SlowAnswer does it at once, and answers after Fault.For.
	SlowAnswer
	// RateLimited answers 429. Nothing was done. Fault.For is what Retry-After says,
	// and zero leaves it out.
	RateLimited
	// Unavailable answers 503. Nothing was done.
	Unavailable
	// Garbage does it and answers what is no answer: a page of HTML, or an object
	// without what belongs there.
	Garbage
	// WithID does it and answers with an error that has the machines. Of launch.
	WithID
	// Partial makes Fault.N machines fewer, and says nothing of that. Zero means
	// half of them. Of launch.
	Partial
	// Duplicate makes the first machine twice, and tells of one. Of launch.
	Duplicate
	// Lag does it, and neither lists nor describes what was made for Fault.For.
	// Of prepare and launch.
	Lag
	// Overcharged charges Fault.Factor times the offer's price: twice, where that
	// is zero. Of launch.
	Overcharged
	// Ignored says yes and does nothing. Of terminate, release and marklease.
	Ignored
	// NeverUp makes machines that stay pending. Of launch.
	NeverUp
	// FailedBoot makes machines that fail in place of coming up. Of launch.
	FailedBoot
	// DeadSSH makes machines that run and cannot be reached. Of launch.
	DeadSSH
	// OtherGPUs makes machines whose GPUs are not what was offered, but K80s. Of
	// launch, with Options.Exec.
	OtherGPUs

	kinds
)

var kindNames = [...]string{
	"none", "error before", "error after", "lost", "refused", "delay", "slow answer", "rate limited", "unavailable", "garbage",
	"with id", "partial", "duplicate", "lag", "overcharged", "ignored", "never up", "failed boot", "dead ssh", "other gpus",
}

// String returns the kind in lower case: "error after".
func (k Kind) String() string {
	if k < 0 || k >= kinds {
		return fmt.Sprintf("sim.Kind(%d)", int(k))
	}
	return kindNames[k]
}

// fits reports whether a kind can befall a call.
func (k Kind) fits(op Op) bool {
	switch k {
	case WithID, Partial, Duplicate, Overcharged, NeverUp, FailedBoot, DeadSSH, OtherGPUs:
		return op == OpLaunch
	case Lag:
		return op == OpLaunch || op == OpPrepare
	case Ignored:
		return op == OpTerminate || op == OpRelease || op == OpMarkLease
	}
	return op != OpOpen
}

// A Fault is a rule for what goes wrong with which calls. The first rule that
// applies to a call decides. [OpOpen] is only subject to outages.
type Fault struct {
	// Op is which calls. Empty means all that Kind fits.
	Op Op
	// Nth is the first of those calls that it befalls, counted from 1 since the
	// rule is there. Zero means every one, with the probability P.
	Nth int
	// Count is how many calls in a row from Nth on. Zero means 1.
	Count int
	// P is the probability. Zero means 1.
	P float64
	// Kind is what goes wrong.
	Kind Kind
	// For is how long, for Delay, SlowAnswer, Lag and RateLimited.
	For time.Duration
	// N is for Partial, and Factor for Overcharged.
	N      int
	Factor float64

	random []Kind // one of these, by seed: see Random
	seed   uint64
	seen   int            // calls that the rule could befall
	empty  bool           // which kind of garbage
	keys   map[string]int // for the random: how often each call came
}

// Random is a rule that befalls calls of every kind with the probability rate,
// with faults of the given kinds; none means all that can befall an API, and no
// machine. The times are up to half a minute; what lags, lags no longer than
// Options.ListLag. What befalls a call depends on the seed, on what is asked of
// which rank, and on how often that was asked: not on which of two calls at the
// same time comes first.
func Random(seed uint64, rate float64, of ...Kind) Fault {
	if len(of) == 0 {
		for k := ErrorBefore; k <= Ignored; k++ {
			of = append(of, k)
		}
	}
	return Fault{P: rate, random: of, seed: seed, keys: map[string]int{}}
}

// chance returns random numbers that only what is given decides.
func chance(seed uint64, what ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintln(h, what...)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// decide returns the fault that befalls a call. c.mu is held.
func (c *Cloud) decide(op Op, key string) Fault {
	for i, f := range c.faults {
		if g, ok := f.befalls(op, key, c.opts.Seed+uint64(i), c.opts.ListLag); ok {
			return g
		}
	}
	return Fault{}
}

// befalls returns the fault that a rule has for a call.
func (f *Fault) befalls(op Op, key string, seed uint64, lag time.Duration) (Fault, bool) {
	if f.Op != "" && f.Op != op || op == OpOpen {
		return Fault{}, false
	}
	if f.random == nil && !f.Kind.fits(op) {
		return Fault{}, false
	}
	f.seen++
	if f.random == nil {
		f.empty = f.seen%2 == 0
		if f.Nth > 0 {
			return *f, f.seen >= f.Nth && f.seen < f.Nth+max(f.Count, 1)
		}
		return *f, f.P == 0 || chance(seed, op, f.seen).Float64() < f.P
	}
	f.keys[key]++
	r := chance(f.seed, key, f.keys[key])
	if r.Float64() >= f.P {
		return Fault{}, false
	}
	var fit []Kind
	for _, k := range f.random {
		if k.fits(op) && (k != Lag || lag > 0) {
			fit = append(fit, k)
		}
	}
	if len(fit) == 0 {
		return Fault{}, false
	}
	g := Fault{Kind: fit[r.IntN(len(fit))], empty: r.IntN(2) == 0}
	switch g.Kind {
	case Delay, SlowAnswer:
		g.For = time.Duration(r.Int64N(int64(30 * time.Second)))
	case RateLimited:
		g.For = time.Duration(r.IntN(5)) * time.Second
	case Lag:
		g.For = time.Duration(r.Int64N(int64(lag)))
	}
	return g, true
}

// Inject adds rules, after those that are there.
func (c *Cloud) Inject(faults ...Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addFaults(faults)
}

func (c *Cloud) addFaults(faults []Fault) {
	for _, f := range faults {
		if f.random != nil {
			f.keys = map[string]int{} // the rule may be another cloud's too
		}
		c.faults = append(c.faults, &f)
	}
}

// Calm removes all rules and ends all outages: from now on nothing goes wrong.
// What has gone wrong stays so.
func (c *Cloud) Calm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults, c.outages = nil, nil
}

// An outage is a time in which nothing answers.
type outage struct{ from, until time.Time }

// Outage has the API answer nothing for a while: every call fails before
// anything is done. The machines live on.
func (c *Cloud) Outage(from time.Time, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outages = append(c.outages, outage{from, from.Add(d)})
}

// isOut reports whether there is an outage now. c.mu is held.
func (c *Cloud) isOut() bool {
	now := time.Now()
	for _, o := range c.outages {
		if !now.Before(o.from) && now.Before(o.until) {
			return true
		}
	}
	return false
}
