package cloudtest

import (
	"maps"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/providertest"
)

// Conformance runs the suite of providertest. hooks returns what only this fake can do; the rest of the harness is made of the
// Cloud, unless hooks has set it. The checks that must run alone come first, and the others beside the package's other tests,
// unless Alone is set.
func (c Cloud[F, C]) Conformance(t *testing.T, hooks func(F) providertest.Harness) {
	t.Helper()
	run := providertest.RunBeside
	if c.Alone {
		run = providertest.RunParallel
	}
	run(t, func(t *testing.T) providertest.Harness {
		f := c.Start(t)
		h := hooks(f)
		h.Spec, h.Secrets = c.Spec, append(h.Secrets, c.Secrets...)
		h.Account = func() []driver.Resource { return c.Account(f) }
		h.Fault, h.Calls = providertest.OnServer(f, c.Ops)
		if h.Provider == nil {
			h.Provider = c.Config(f)
		}
		with := func(key driver.Secret) C {
			cfg := h.Provider.(C)
			c.Credential.Set(&cfg, key)
			return cfg
		}
		if h.WrongKey == nil {
			h.WrongKey = with("wrong")
		}
		if h.MissingKey == nil {
			h.MissingKey = &providertest.MissingKey{Provider: with(""), Names: c.Credential.Name}
		}
		if c.Dialed != nil {
			h.Dial = fakecloud.Dial
		}
		without := map[string]string{}
		if c.Meters != nil {
			h.Metered = func() (driver.Provider, func() float64) { return c.metered(f, h.Provider.(C)) }
		} else {
			without["Metered"] = c.NoMeter
		}
		for _, op := range []providertest.Op{providertest.OpPrepare, providertest.OpRelease} {
			if len(c.Ops[op]) == 0 {
				maps.Copy(without, uncalled(op, c.Nothing))
			}
		}
		maps.Copy(without, h.Without)
		h.Without = without
		return h
	})
}

// metered returns the provider of a fake for a bubble, and the fake's meter. Its machines are only rows from now on.
func (c Cloud[F, C]) metered(f F, cfg C) (driver.Provider, func() float64) {
	c.Client(&cfg, f.Inside())
	if c.Still != nil {
		f.Do(func() { c.Still(f) })
	}
	return cfg, f.Meter(c.Tariff, func() []fakecloud.Metered { return c.Meters(f) }).USD
}

// uncalled has the checks that need a call of Prepare or Release, for a driver that makes none.
func uncalled(op providertest.Op, why string) map[string]string {
	all := map[string]string{"cancel in the midst of " + string(op): why}
	for _, f := range []providertest.Fault{
		{Kind: providertest.Failed}, {Kind: providertest.Failed, After: true}, {Kind: providertest.Cut, After: true}, {Kind: providertest.HTML, After: true},
	} {
		all[string(op)+": "+f.String()] = why
	}
	return all
}

// Reads returns, for Harness.Without, the checks of the suite that are the same
// whatever is rented. The package's TestConformance runs them.
func Reads() map[string]string {
	const why = "TestConformance has it: a read is the same whatever is rented"
	all := map[string]string{"read that waits for Retry-After": why, "keys are never in errors": why}
	for kind := providertest.Failed; kind < providertest.Hang; kind++ {
		all["read that is never answered well: "+kind.String()] = why
		if kind <= providertest.Cut || kind == providertest.HTML || kind == providertest.Empty {
			all["read that is answered well the second time: "+kind.String()] = why
		}
	}
	return all
}
