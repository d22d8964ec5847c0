package driver

import "github.com/gputrain/gputrain/accelerators"

// A Scripter is a [Driver] with scripts for its machines.
type Scripter interface {
	// Scripts returns the scripts for one machine. The zero value has none. For the zero Instance
	// they have a SelfDestruct if every machine will have one.
	Scripts(instance Instance) Scripts
}

// Scripts are POSIX shell scripts that a machine runs. Each may be empty.
type Scripts struct {
	// SelfDestruct ends the machine once its lease or TTL has run out, with a permission for
	// that machine alone.
	SelfDestruct string
	// PreemptionWatch looks once for a notice of preemption that Instance.PreemptAt does not
	// report: it prints the remaining seconds, or nothing.
	PreemptionWatch string
	// FindAddress prints the IP address by which the pool's other nodes reach the machine, its
	// Instance.PrivateAddr, or nothing if it has none.
	FindAddress string
	// Probe examines a machine that the driver knows nothing about until it is reached. It runs
	// each time a program takes the machine over. Probed reads its output.
	Probe string
	// Probed returns the machine's accelerator, or an error if it does not satisfy the query.
	// It is not nil if Probe is not empty.
	Probed func(query Query, printed string) (accelerators.Accelerator, error)
}
