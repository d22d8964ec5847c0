package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/gputrain/gputrain/providers/driver/fault"
)

// An Op is a kind of call to a cloud's API: see package fault.
type Op = fault.Op

// The calls of a driver. Prepare and release are two calls each: one for the network and one
// for the key.
const (
	OpOpen      = fault.OpOpen
	OpOffers    = fault.OpOffers
	OpPrepare   = fault.OpPrepare
	OpLaunch    = fault.OpLaunch
	OpDescribe  = fault.OpDescribe
	OpList      = fault.OpList
	OpTerminate = fault.OpTerminate
	OpRelease   = fault.OpRelease
	OpMarkLease = fault.OpMarkLease
	OpAccount   = fault.OpAccount
)

// A Kind is a kind of fault: the kinds of package fault that this API has, before and after the
// call is executed (see [FaultOf]), and further ones of a cloud.
type Kind int

const (
	// None is no fault.
	None Kind = iota
	// ErrorBefore answers with an internal error (500) and executes nothing.
	ErrorBefore
	// ErrorAfter executes the call and answers with an internal error (500).
	ErrorAfter
	// Lost executes the call and cuts the connection instead of answering.
	Lost
	// Refused cuts the connection before anything is executed.
	Refused
	// Delay executes the call only after Fault.For, and then answers. It executes the call even
	// if the caller does not wait.
	Delay
	// SlowAnswer executes the call at once and answers after Fault.For.
	SlowAnswer
	// RateLimited answers 429 and executes nothing. Fault.For is the Retry-After; zero omits
	// it.
	RateLimited
	// Unavailable answers 503 and executes nothing.
	Unavailable
	// Garbage executes the call and answers with a page of HTML, or with an object without its
	// fields.
	Garbage
	// WithID executes a launch and answers with an error that contains the machines.
	WithID
	// Partial makes a launch create Fault.N machines fewer without reporting it. Zero means
	// half of them.
	Partial
	// Duplicate makes a launch create the first machine twice and report one.
	Duplicate
	// Lag executes a prepare or launch whose results are neither listed nor described for
	// Fault.For.
	Lag
	// Overcharged makes a launch charge Fault.Factor times the offer's price: twice, if that is
	// zero.
	Overcharged
	// Ignored makes a terminate, release or marklease report success without doing anything.
	Ignored
	// NeverUp makes a launch create machines that stay pending.
	NeverUp
	// FailedBoot makes a launch create machines that fail at boot.
	FailedBoot
	// DeadSSH makes a launch create machines that run but cannot be reached.
	DeadSSH
	// OtherGPUs makes a launch, with Options.Exec, create machines with K80s instead of the
	// offered GPUs.
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

// fits reports whether a kind applies to a call.
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

// A Fault is a rule for faults of certain calls. The first rule that applies to a call decides.
// Only outages affect [OpOpen].
type Fault struct {
	// Op is the call. Empty means all calls that Kind applies to.
	Op Op
	// Nth is the first of those calls that fails, counted from 1 since the rule was added. Zero
	// means every call, with the probability P.
	Nth int
	// Count is the number of failing calls in a row from Nth on. Zero means 1.
	Count int
	// P is the probability. Zero means 1.
	P float64
	// Kind is the fault.
	Kind Kind
	// For is the duration of Delay, SlowAnswer, Lag and RateLimited.
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

// Random is a rule that applies to calls of every kind with the probability rate. It picks one
// of the given kinds; none means all kinds of an API's faults, and none of a machine's. Times
// are up to half a minute; a lag is at most Options.ListLag. The fault of a call depends on the
// seed, the request, its rank, and how often it came, not on the order of calls at the same
// time.
func Random(seed uint64, rate float64, of ...Kind) Fault {
	if len(of) == 0 {
		for k := ErrorBefore; k <= Ignored; k++ {
			of = append(of, k)
		}
	}
	return Fault{P: rate, random: of, seed: seed, keys: map[string]int{}}
}

// chance returns random numbers that depend only on the arguments.
func chance(seed uint64, what ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintln(h, what...)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// A trouble holds the faults and outages of a cloud. The cloud's mu guards it.
type trouble struct {
	seed    uint64
	lag     time.Duration // of lists
	faults  []*Fault
	outages []outage
}

// An outage is a time without answers.
type outage struct{ from, until time.Time }

// decide returns the fault of a call.
func (t *trouble) decide(op Op, key string) Fault {
	for i, f := range t.faults {
		if g, ok := f.befalls(op, key, t.seed+uint64(i), t.lag); ok {
			return g
		}
	}
	return Fault{}
}

// add adds rules after the existing ones.
func (t *trouble) add(faults []Fault) {
	for _, f := range faults {
		if f.random != nil {
			f.keys = map[string]int{} // another cloud may have the rule too
		}
		t.faults = append(t.faults, &f)
	}
}

// isOut reports whether there is an outage now.
func (t *trouble) isOut() bool {
	now := time.Now()
	for _, o := range t.outages {
		if !now.Before(o.from) && now.Before(o.until) {
			return true
		}
	}
	return false
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

// Inject adds rules after the existing ones.
func (c *Cloud) Inject(faults ...Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble.add(faults)
}

// Calm removes all rules and ends all outages. Past faults keep their effects.
func (c *Cloud) Calm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble.faults, c.trouble.outages = nil, nil
}

// Outage makes every call fail for a while before it is executed. The machines live on.
func (c *Cloud) Outage(from time.Time, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble.outages = append(c.trouble.outages, outage{from, from.Add(d)})
}
