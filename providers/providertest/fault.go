package providertest

import "time"

// An Op is what a driver asks of its API, by the method of gputrain.Driver that
// asks it. A method may need several calls: then it is the first that reads or
// writes what the method is about.
type Op string

// The methods that make calls. AnyOp is all calls together.
const (
	AnyOp       Op = ""
	OpOffers    Op = "offers"
	OpPrepare   Op = "prepare"
	OpLaunch    Op = "launch"
	OpDescribe  Op = "describe"
	OpList      Op = "list"
	OpTerminate Op = "terminate"
	OpRelease   Op = "release"
)

// A Kind is what goes wrong with a call.
type Kind int

const (
	// Failed is an internal error: 500.
	Failed Kind = iota
	// Unavailable is 503 without Retry-After.
	Unavailable
	// RateLimited is 429, with Retry-After where Fault.RetryAfter is set.
	RateLimited
	// Cut cuts the connection in place of an answer.
	Cut
	// Garbage, HTML and Empty are answers with a status of success and a body that
	// is none of the API's: broken JSON, a page, nothing.
	Garbage
	HTML
	Empty
	// Huge is a status of success and a body larger than any answer: 100 MiB, or
	// what the provider takes at most and some more.
	Huge
	// Hang answers only once the caller has given up.
	Hang
	// Astray is 404 and a page: what something says that stands before the API, such as a
	// gateway that is being set up anew, and not that a machine is gone.
	Astray
	// Redirected leads the caller to Fault.To, by the status of Fault.Status.
	Redirected
	// Undone is the API's own answer of success, and nothing is done.
	Undone
	// Missing is the API's own answer that what the call names does not exist, though other
	// calls still show it.
	Missing
)

// String returns the kind in lower case: "rate limited".
func (k Kind) String() string {
	return [...]string{"failed", "unavailable", "rate limited", "cut", "garbage", "html", "empty", "huge", "hang", "astray", "redirected", "undone", "missing"}[k]
}

// A Fault is what goes wrong with the next calls of an Op.
type Fault struct {
	Kind Kind
	// After has the call do its work first, so that only the answer is wrong.
	After bool
	// Times is how many calls it hits. Zero means one, and less than zero all.
	Times int
	// RetryAfter is what RateLimited tells, in whole seconds. Zero leaves it out.
	RetryAfter time.Duration
	// Status is that of Redirected, from 301 to 308, and To the address in its Location.
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
