// Package fault names the faults between a driver and its cloud's API, for tests: the call, the
// fault, before or after the call takes effect, and how often. The conformance suite
// (providers/providertest) requests them from a fake; the kit for fakes and the simulated cloud
// (providers/sim) each translate them in one table.
package fault

import "time"

// An Op is a call to the API, named after the method of driver.Driver that makes it.
type Op string

// The methods that make calls. AnyOp is all calls together.
const (
	AnyOp       Op = ""
	OpOpen      Op = "open" // Provider.Open
	OpOffers    Op = "offers"
	OpPrepare   Op = "prepare"
	OpLaunch    Op = "launch"
	OpDescribe  Op = "describe"
	OpList      Op = "list"
	OpTerminate Op = "terminate"
	OpRelease   Op = "release"
	OpMarkLease Op = "marklease" // LeaseMarker.MarkLease
	OpAccount   Op = "account"   // Balancer.Balance and Quoter.Quota
)

// A Kind is a kind of fault.
type Kind int

const (
	// Failed is an internal error: 500.
	Failed Kind = iota
	// Unavailable is 503 without Retry-After.
	Unavailable
	// RateLimited is 429, with Retry-After if Fault.RetryAfter is set.
	RateLimited
	// Cut cuts the connection instead of answering.
	Cut
	// Garbage is a status of success and broken JSON.
	Garbage
	// HTML is a status of success and a page.
	HTML
	// Empty is a status of success and no body.
	Empty
	// Huge is a status of success and a body larger than any answer: 100 MiB, or a little more
	// than the provider accepts.
	Huge
	// Hang answers only once the caller has given up.
	Hang
	// Astray is 404 and a page: the answer of a gateway in front of the API, for example during
	// its set-up. It does not mean that a machine is gone.
	Astray
	// Redirected redirects the caller to Fault.To, with the status Fault.Status.
	Redirected
	// Undone is the API's own answer of success, without any effect.
	Undone
	// Missing is the API's own answer that the named thing does not exist, though other calls
	// still show it.
	Missing
)

var kindNames = [...]string{
	"failed", "unavailable", "rate limited", "cut", "garbage", "html", "empty", "huge", "hang", "astray", "redirected", "undone", "missing",
}

// String returns the kind in lower case: "rate limited".
func (k Kind) String() string { return kindNames[k] }

// A Fault is a fault of the next calls of an Op.
type Fault struct {
	Kind Kind
	// After executes the call first, so that only the answer is wrong.
	After bool
	// Times is the number of calls that fail. Zero means one, a negative number all.
	Times int
	// RetryAfter is the Retry-After of RateLimited, in whole seconds. Zero omits it.
	RetryAfter time.Duration
	// Status is the status of Redirected, from 301 to 308, and To the address in its Location.
	Status int
	To     string
}

// String returns the fault in lower case: "cut after it was done".
func (f Fault) String() string {
	if f.After {
		return f.Kind.String() + " after it was done"
	}
	return f.Kind.String() + " before it was done"
}
