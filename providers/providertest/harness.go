package providertest

import (
	"context"
	"net"
	"slices"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/bubble"
)

// A Harness is a provider and what its fake can do. Provider must be there, and Live or
// Account. All else is optional: a nil hook leaves out the checks that need it, for the
// reason that Without has to give.
type Harness struct {
	// Provider is under test, and Spec what it is asked for. The fake has room for
	// four machines at least, unless Machines says otherwise, and of one that is
	// terminated nothing goes on.
	Provider gputrain.Provider
	Spec     gputrain.Spec
	// Members are, for a provider that is made of others, the names of those, in
	// which its errors are too.
	Members []string

	// Machines is how many machines a pool can have, where it is fewer than four. Zero
	// means that it can have as many as the suite asks for.
	Machines int
	// Account returns everything that exists in the account, whoever made it and
	// whatever the API's lists say: Kind and ID as Driver.List has them, and the Name
	// under which it was made.
	Account func() []gputrain.Resource
	// Live returns how many machines there are, whoever made them, without asking the driver
	// or what it asks: by the fake's own state, processes, or containers. Nil means that
	// Account's machines are counted. One of the two must be there: no reason leaves it out.
	Live func() int
	// Calls returns how many calls of an Op have reached the fake, and for AnyOp
	// how many at all.
	Calls func(op Op) int
	// Fault has the next calls of an Op, or for AnyOp of all, go wrong, and returns
	// what ends that. It returns nil for what the fake cannot do.
	Fault func(op Op, f Fault) (remove func())
	// Foreign puts into the account what is somebody else's, at least a machine and
	// one thing of each kind that Prepare makes, and returns their IDs.
	Foreign func() (ids []string)
	// States are the states that the vendor has for machines, and one that it has
	// not.
	States func() []StateCase
	// Stall has machines that are launched from now on stay pending.
	Stall func()
	// Room leaves room for n more machines.
	Room func(n int)
	// Unpriced has the API tell no prices from now on.
	Unpriced func()
	// PagedOffers says that the offers come in several pages.
	PagedOffers bool
	// MissingKey is the provider without its credential.
	MissingKey *MissingKey
	// WrongKey is the provider with a credential that the fake refuses.
	WrongKey gputrain.Provider
	// Secrets are credentials that the provider knows, and must not print.
	Secrets []string
	// Dial, where it is set, reaches the machines in place of the network: for fakes
	// of APIs that know no port but 22.
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	// Without says of checks, or of hooks and so of all checks that need them, why
	// they are left out.
	Without map[string]string

	stranger *stranger // outside the bubble that a check may run in
}

// A StateCase is one of the vendor's states.
type StateCase struct {
	// Vendor is the state in the vendor's word.
	Vendor string
	// Set brings a running machine into it.
	Set func(id string)
	// Want is what Describe makes of it: InstanceUnknown for one that the provider's
	// table does not have.
	Want gputrain.InstanceState
}

// A MissingKey is a provider without its credential.
type MissingKey struct {
	Provider gputrain.Provider
	// Names is what the error has to name: the variable that it falls back to, which
	// the suite empties, or the field where there is none.
	Names string
}

// A check is one promise.
type check struct {
	name  string
	needs []string // names of hooks
	run   func(*trial)
}

func checks() []check {
	return slices.Concat(openChecks(), offerChecks(), launchChecks(), ambiguousChecks(), stateChecks(), terminateChecks(), oddChecks(), listChecks(),
		releaseChecks(), silenceChecks(), answerChecks(), redirectChecks(), cancelChecks(), abilityChecks(), secretChecks(), parallelChecks(), endToEndChecks())
}

// hooks are those that checks can need, and whether a harness has them.
var hooks = map[string]func(Harness) bool{
	"Account":     func(h Harness) bool { return h.Account != nil },
	"Calls":       func(h Harness) bool { return h.Calls != nil },
	"Fault":       func(h Harness) bool { return h.Fault != nil },
	"Foreign":     func(h Harness) bool { return h.Foreign != nil },
	"States":      func(h Harness) bool { return h.States != nil },
	"Stall":       func(h Harness) bool { return h.Stall != nil },
	"Room":        func(h Harness) bool { return h.Room != nil },
	"Unpriced":    func(h Harness) bool { return h.Unpriced != nil },
	"PagedOffers": func(h Harness) bool { return h.PagedOffers },
	"MissingKey":  func(h Harness) bool { return h.MissingKey != nil },
	"WrongKey":    func(h Harness) bool { return h.WrongKey != nil },
	"Secrets":     func(h Harness) bool { return len(h.Secrets) > 0 },
}

// Run checks a provider. start is called for every check, and ends what it starts
// with its test.
func Run(t *testing.T, start func(t *testing.T) Harness) {
	t.Helper()
	runAll(t, start, func(t *testing.T, f func(*testing.T)) { f(t) })
}

// RunInBubble is Run with every check in a bubble of testing/synctest, where
// waiting takes no time, for providers of which nothing is outside the program.
func RunInBubble(t *testing.T, start func(t *testing.T) Harness) {
	t.Helper()
	runAll(t, start, bubble.Test)
}

func runAll(t *testing.T, start func(*testing.T) Harness, in func(*testing.T, func(*testing.T))) {
	t.Helper()
	elsewhere := newStranger(t)
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			why := ""
			in(t, func(t *testing.T) {
				h := start(t)
				h.stranger = elsewhere
				key, out := h.without(c)
				if !out {
					c.in(t, h)
					return
				}
				if why = h.Without[key]; why == "" {
					t.Errorf("Harness.Without[%q] gives no reason", key)
				}
			})
			if why != "" {
				t.Skip(why) // outside the bubble, which knows no skips
			}
		})
	}
}

// without returns the key of Without by which a check is left out, if it is.
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
