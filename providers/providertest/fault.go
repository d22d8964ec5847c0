package providertest

import "github.com/gputrain/gputrain/providers/driver/fault"

// An Op is a call to the API: see package fault. If a method of driver.Driver needs several
// calls, it is the first that reads or writes the method's subject.
type Op = fault.Op

// The methods of driver.Driver that make calls. AnyOp is all calls together.
const (
	AnyOp       = fault.AnyOp
	OpOffers    = fault.OpOffers
	OpPrepare   = fault.OpPrepare
	OpLaunch    = fault.OpLaunch
	OpDescribe  = fault.OpDescribe
	OpList      = fault.OpList
	OpTerminate = fault.OpTerminate
	OpRelease   = fault.OpRelease
)

// A Kind is a kind of fault: see package fault.
type Kind = fault.Kind

// The kinds of package fault.
const (
	Failed      = fault.Failed
	Unavailable = fault.Unavailable
	RateLimited = fault.RateLimited
	Cut         = fault.Cut
	Garbage     = fault.Garbage
	HTML        = fault.HTML
	Empty       = fault.Empty
	Huge        = fault.Huge
	Hang        = fault.Hang
	Astray      = fault.Astray
	Redirected  = fault.Redirected
	Undone      = fault.Undone
	Missing     = fault.Missing
)

// A Fault is a fault of the next calls of an Op: see package fault.
type Fault = fault.Fault
