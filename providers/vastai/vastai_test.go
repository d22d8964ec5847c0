package vastai

import (
	"context"
	"fmt"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func (f *fake) config() Config { return Config{APIKey: testKey, Endpoint: f.URL} }

func (f *fake) open(change ...func(*Config)) *vastaiDriver {
	f.t.Helper()
	cfg := f.config()
	for _, c := range change {
		c(&cfg)
	}
	d, err := cfg.Open(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { d.Close() })
	return d.(*vastaiDriver)
}

// prepared returns a driver with pool p1 prepared.
func prepared(t *testing.T, f *fake, change ...func(*Config)) *vastaiDriver {
	t.Helper()
	d := f.open(change...)
	if err := d.Prepare(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Fatal(err)
	}
	return d
}

// launch launches one node of the first offer for the spec.
func launch(t *testing.T, d *vastaiDriver, spec gputrain.Spec, rank int) ([]driver.Instance, error) {
	t.Helper()
	all := cloudtest.AllOffers(t, d, spec.Query())
	if len(all) == 0 {
		t.Fatal("no offers")
	}
	return d.Launch(t.Context(), request(spec, all[0], rank))
}

func request(spec gputrain.Spec, o driver.Offer, rank int) driver.Launch {
	return driver.Launch{Pool: cloudtest.Info("p1"), Offer: o, Query: spec.Query(), Nodes: []driver.NodeRequest{{Rank: rank, Name: fmt.Sprintf("p1-%d", rank)}}}
}

func mustLaunch(t *testing.T, d *vastaiDriver, spec gputrain.Spec, rank int) driver.Instance {
	t.Helper()
	got, err := launch(t, d, spec, rank)
	return cloudtest.One(t, got, err)
}

// is checks that an error has a kind, and the form that all errors have.
func is(t *testing.T, err, kind error, op string) {
	t.Helper()
	cloudtest.Is(t, err, kind, "vastai", op, testKey)
}
