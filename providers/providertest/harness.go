package providertest

import (
	"context"
	"net"
	"slices"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/internal/test/sidebyside"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Harness is a provider with the abilities of its fake. Provider is mandatory, and so is Live
// or Account. Everything else is optional: a nil hook skips the checks that need it, for the
// reason in Without.
type Harness struct {
	// Provider is under test, with launches for Spec. The fake has capacity for at least
	// four machines, unless Machines is set. Terminated machines free their capacity.
	Provider driver.Provider
	Spec     gputrain.Spec
	// Members are the names of a provider's members, if it is made of others. Its errors may
	// have these names.
	Members []string

	// Machines is the maximum of a pool's machines, if it is below four. Zero means as many as
	// the suite asks for.
	Machines int
	// Account returns everything that exists in the account, from any program and whatever the
	// API's lists say: Kind and ID as in Driver.List, and the Name at creation.
	Account func() []driver.Resource
	// Live returns the number of machines, from any program, without asking the driver or its
	// API: by the fake's own state, processes, or containers. Nil means that Account's machines
	// are counted. One of the two is mandatory: no reason replaces it.
	Live func() int
	// Calls returns the number of calls of an Op that have reached the fake; for AnyOp of all
	// calls.
	Calls func(op Op) int
	// Fault makes the next calls of an Op fail, or for AnyOp all calls, and returns a func that
	// ends that. It returns nil for a fault that the fake cannot make.
	Fault func(op Op, f Fault) (remove func())
	// Foreign puts things into the account that are not gputrain's, at least a machine and one
	// thing of each kind that Prepare makes, and returns their IDs.
	Foreign func() (ids []string)
	// States returns the vendor's states of machines, and a state that the vendor does not
	// have.
	States func() []StateCase
	// Stall makes machines that are launched from now on stay pending.
	Stall func()
	// Room limits the fake's capacity to n more machines.
	Room func(n int)
	// Funds sets the money of the account, in US dollars.
	Funds func(usd float64)
	// Allow sets the account's quota to n more machines.
	Allow func(n int)
	// Tags returns the tags or labels of a machine in the fake, by its ID.
	Tags func(id string) map[string]string
	// Unpriced makes the API report no prices from now on.
	Unpriced func()
	// Metered returns the provider for a bubble of testing/synctest, with a client whose calls are answered within the program,
	// and a meter of what the cloud has charged so far, in US dollars, by the cloud's own rule and without gputrain's. From
	// then on machines are only entries of the fake's state.
	Metered func() (p driver.Provider, usd func() float64)
	// PagedOffers is true if the offers come in several pages.
	PagedOffers bool
	// MissingKey is the provider without its credential.
	MissingKey *MissingKey
	// WrongKey is the provider with a credential that the fake refuses.
	WrongKey driver.Provider
	// Secrets are credentials that the provider has and must not print.
	Secrets []string
	// Dial, if set, reaches the machines instead of the network: for fakes of APIs that only
	// use port 22.
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	// Without has the reasons why checks are skipped, by the checks, or by the hooks that they
	// need.
	Without map[string]string

	stranger *stranger // outside the bubble of a check
}

// A StateCase is one of the vendor's states.
type StateCase struct {
	// Vendor is the state in the vendor's words.
	Vendor string
	// Set puts a running machine into that state.
	Set func(id string)
	// Want is Describe's state for it: InstanceUnknown for a state that is not in the
	// provider's table.
	Want driver.InstanceState
}

// A MissingKey is a provider without its credential.
type MissingKey struct {
	Provider driver.Provider
	// Names is the name that the error must contain: the variable that the provider falls back
	// to, which the suite empties, or the field if there is none.
	Names string
}

// A check is one promise.
type check struct {
	name  string
	needs []string // names of hooks
	run   func(*trial)
}

func checks() []check {
	return slices.Concat(openChecks(), offerChecks(), accountChecks(), launchChecks(), ambiguousChecks(), stateChecks(), terminateChecks(), billChecks(), oddChecks(), listChecks(),
		releaseChecks(), silenceChecks(), answerChecks(), redirectChecks(), cancelChecks(), optionalChecks(), bakeChecks(), secretChecks(), parallelChecks(), endToEndChecks())
}

// hooks reports, by the name of a hook that checks can need, whether a harness has it.
var hooks = map[string]func(Harness) bool{
	"Account":     func(h Harness) bool { return h.Account != nil },
	"Calls":       func(h Harness) bool { return h.Calls != nil },
	"Fault":       func(h Harness) bool { return h.Fault != nil },
	"Foreign":     func(h Harness) bool { return h.Foreign != nil },
	"States":      func(h Harness) bool { return h.States != nil },
	"Stall":       func(h Harness) bool { return h.Stall != nil },
	"Room":        func(h Harness) bool { return h.Room != nil },
	"Funds":       func(h Harness) bool { return h.Funds != nil },
	"Allow":       func(h Harness) bool { return h.Allow != nil },
	"Tags":        func(h Harness) bool { return h.Tags != nil },
	"Unpriced":    func(h Harness) bool { return h.Unpriced != nil },
	"Metered":     func(h Harness) bool { return h.Metered != nil },
	"PagedOffers": func(h Harness) bool { return h.PagedOffers },
	"MissingKey":  func(h Harness) bool { return h.MissingKey != nil },
	"WrongKey":    func(h Harness) bool { return h.WrongKey != nil },
	"Secrets":     func(h Harness) bool { return len(h.Secrets) > 0 },
}

// Run checks a provider. It calls start for every check; everything that start starts ends with
// its test.
func Run(t *testing.T, start func(t *testing.T) Harness) {
	t.Helper()
	runAll(t, start, 1, false, nil)
}

// RunParallel is Run with several checks at a time, for providers whose fakes share nothing: start
// must not change the environment or anything else of the process.
func RunParallel(t *testing.T, start func(t *testing.T) Harness) {
	t.Helper()
	runAll(t, start, 8, false, nil)
}

// RunBeside is RunParallel in parallel with the package's other parallel tests. The checks that
// must run alone come first. The test must not have changed the environment.
func RunBeside(t *testing.T, start func(t *testing.T) Harness) {
	t.Helper()
	runAll(t, start, 8, false, t.Parallel)
}

// inBubble runs f in a bubble if that is wanted.
func inBubble(t *testing.T, wanted bool, f func(*testing.T)) {
	if wanted {
		bubble.Test(t, f)
	} else {
		f(t)
	}
}

// RunInBubble is Run with every check in a bubble of testing/synctest, where waiting takes no
// time, for providers that are entirely inside the program.
func RunInBubble(t *testing.T, start func(t *testing.T) Harness) {
	t.Helper()
	runAll(t, start, 1, true, nil)
}

// runAll runs those checks that must run alone, calls beside if it is not nil, and runs the others, atOnce of them at a time.
func runAll(t *testing.T, start func(*testing.T) Harness, atOnce int, bubbles bool, beside func()) {
	t.Helper()
	elsewhere := newStranger(t)
	var parallel, alone []sidebyside.Test
	for _, c := range checks() {
		test := sidebyside.Test{Name: c.name, Run: func(t *testing.T) {
			why := ""
			inBubble(t, bubbles, func(t *testing.T) {
				h := start(t)
				h.stranger = elsewhere
				key, out := h.without(c)
				if !out {
					inBubble(t, c.takesHours() && !bubbles, func(t *testing.T) { c.in(t, h) })
					return
				}
				if why = h.Without[key]; why == "" {
					t.Errorf("Harness.Without[%q] gives no reason", key)
				}
			})
			if why != "" {
				t.Skip("not for this provider: " + why) // outside the bubble, which does not support skips
			}
		}}
		if c.alone() {
			alone = append(alone, test)
		} else {
			parallel = append(parallel, test)
		}
	}
	sidebyside.Run(t, 1, alone)
	if beside != nil {
		beside()
	}
	sidebyside.Run(t, atOnce, parallel)
}

// alone reports whether no other check may run at the same time, since the check changes the
// environment or looks at all goroutines.
func (c check) alone() bool {
	return slices.Contains(c.needs, "MissingKey") || c.name == leavesNoGoroutine
}

// takesHours reports whether a check takes hours, which pass in no time in a bubble of its own.
func (c check) takesHours() bool { return slices.Contains(c.needs, "Metered") }

// without returns the key of Without that skips a check, if there is one.
func (h Harness) without(c check) (key string, out bool) {
	for _, key := range append([]string{c.name}, c.needs...) {
		if _, out := h.Without[key]; out {
			return key, true
		}
	}
	return "", false
}

// in runs a check.
func (c check) in(t testing.TB, h Harness) {
	t.Helper()
	for key, why := range h.Without {
		known := hooks[key] != nil || slices.ContainsFunc(checks(), func(c check) bool { return c.name == key })
		switch {
		case !known:
			t.Errorf("Harness.Without[%q]: there is no such check or hook", key)
		case why == "":
			t.Errorf("Harness.Without[%q] gives no reason", key)
		case hooks[key] != nil && hooks[key](h):
			t.Errorf("Harness.Without[%q]: the harness has it", key)
		}
	}
	if h.Live == nil && h.Account == nil {
		t.Fatalf("set Harness.Live, or Harness.Account: without them nothing but the driver's word says that machines are gone")
	}
	for _, hook := range c.needs {
		if !hooks[hook](h) {
			t.Fatalf("this check needs Harness.%s: set it, or say why not in Harness.Without[%q]", hook, hook)
		}
	}
	c.run(&trial{TB: t, h: h, check: c.name, name: h.Provider.Name()})
}
