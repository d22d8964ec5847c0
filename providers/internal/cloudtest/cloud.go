package cloudtest

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/readme"
	"github.com/gputrain/gputrain/providers/providertest"
)

// A Fake is a cloud's API in memory: an embedded *fakecloud.Server has these methods.
type Fake interface {
	Do(change func())
	Inject(fakecloud.Fault) *fakecloud.Injected
	Records(ops ...string) []fakecloud.Record
	Inside() *http.Client
	Meter(fakecloud.Tariff, func() []fakecloud.Metered) *fakecloud.Meter
}

// A Cloud is what the standard tests know of a provider: F is its fake, and C its Config. Each standard test is a method, whose
// parameters are the facts that only this test needs. A provider calls each of them in a test of that name; standard_test.go has
// the list, with the reasons of those that leave one out. A test of another kind of its machines has a copy with other fields.
type Cloud[F Fake, C driver.Provider] struct {
	// Name is the provider's, in errors.
	Name string
	// Spec asks for a machine that the fake rents.
	Spec gputrain.Spec
	// Start starts a fake of an account that has nothing yet. Still makes its machines be only rows, which are enough for tests
	// that reach none; nil leaves them machines.
	Start func(t *testing.T) F
	Still func(F)
	// Config rents from a fake.
	Config func(F) C
	// Account is everything in the account: see providertest.Harness.
	Account func(F) []driver.Resource
	// Dialed wraps a driver of an API that knows no port but 22, so that its machines are reached. Nil wraps none.
	Dialed func(driver.Driver) driver.Driver
	// Client has a Config make its calls by an HTTP client. Golden and ConfigFaults need it.
	Client func(*C, *http.Client)
	// Credential is what authenticates the calls.
	Credential Credential[C]
	// Secrets must be in no error. The first one is the credential's text.
	Secrets []string
	// Ops are the API's operations behind those of the driver.
	Ops map[providertest.Op][]string
	// Alone is true if the conformance test changes the environment, so that no other test may run beside it.
	Alone bool
	// Nothing says why Prepare or Release makes no call, where Ops has none.
	Nothing string
	// Made is what exists while a pool of two nodes is open, by its kind.
	Made map[string]int
	// Repeats is true if a launch has a token, by which the call can be made again.
	Repeats bool
	// Tariff is how the cloud bills, by the sheet of its facts, and Meters are the machines of a fake as the cloud's meter reads
	// them. NoMeter says why a fake has none.
	Tariff  fakecloud.Tariff
	Meters  func(F) []fakecloud.Metered
	NoMeter string
	// EndsItself is true if a machine ends its own billing when its program is gone.
	EndsItself bool
}

// A Credential is one secret of a Config.
type Credential[C driver.Provider] struct {
	// Set puts a text into the Config's field.
	Set func(*C, driver.Secret)
	// Name is the variable that an empty field falls back to.
	Name string
}

// With returns a copy that rents for another spec, by a Config that change has changed unless it is nil.
func (c Cloud[F, C]) With(spec gputrain.Spec, change func(*C)) Cloud[F, C] {
	config := c.Config
	c.Spec = spec
	c.Config = func(f F) C {
		cfg := config(f)
		if change != nil {
			change(&cfg)
		}
		return cfg
	}
	return c
}

// provider returns the provider of a fake, whose pools reach its machines.
func (c Cloud[F, C]) provider(f F) driver.Provider { return c.Reached(c.Config(f)) }

// Reached returns a provider whose pools reach the machines of a fake.
func (c Cloud[F, C]) Reached(cfg C) driver.Provider {
	if c.Dialed == nil {
		return cfg
	}
	return reached{cfg, c.Dialed}
}

type reached struct {
	driver.Provider
	wrap func(driver.Driver) driver.Driver
}

func (p reached) Open(ctx context.Context) (driver.Driver, error) {
	d, err := p.Provider.Open(ctx)
	if err != nil {
		return nil, err
	}
	return p.wrap(d), nil
}

// Dialer is a driver.Dialer that reaches machines by fakecloud.Dial. [Cloud.Dialed] embeds it beside the driver, which keeps the
// driver's other abilities.
type Dialer struct{}

func (Dialer) Dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	return fakecloud.Dial(ctx, in.SSH.Addr)
}

// Port22 is [Cloud.Dialed] of a provider whose driver is a *cloud.Driver.
func Port22(d driver.Driver) driver.Driver {
	return struct {
		*cloud.Driver
		Dialer
	}{Driver: d.(*cloud.Driver)}
}

// still starts a fake whose machines are only rows.
func (c Cloud[F, C]) still(t *testing.T) F {
	f := c.Start(t)
	if c.Still != nil {
		c.Still(f)
	}
	return f
}

// kinds counts what is in the account.
func (c Cloud[F, C]) kinds(f F) map[string]int {
	n := map[string]int{}
	for _, r := range c.Account(f) {
		n[r.Kind]++
	}
	return n
}

// Readme compares README's row of the provider, and "At a glance" of its documentation, with its driver.
func (c Cloud[F, C]) Readme(t *testing.T) { readme.Check(t, c.Config(c.Start(t))) }
