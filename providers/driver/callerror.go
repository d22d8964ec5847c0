package driver

// A CallError is an error by which a [Driver] reports whether the provider answered a failed
// call. It may be anywhere in the chain of the driver's error. Without one in the chain that is
// unknown: the pool then waits for Capabilities.LateEffect at its end.
type CallError interface {
	error
	// Answered reports whether the provider answered every attempt at the call that it was
	// sent, even with an internal error: then no request is still on its way, and everything
	// that will be made has been made. The answer of a gateway that has heard nothing from the
	// provider (502, 504) does not count.
	Answered() bool
}
