//go:build unix

package sim_test

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/providertest"
	"github.com/gputrain/gputrain/providers/sim"
)

// The suite passes with real processes, in a cloud that is served over HTTP and requires a
// token.
func TestConformanceOfRealMachines(t *testing.T) {
	sim.HurryLaunches(t, time.Millisecond) // TestConformance has the whole pauses, in virtual time
	providertest.RunParallel(t, func(t *testing.T) providertest.Harness {
		h := harness(t, sim.Options{Token: "sk-sim-test", BootTime: time.Millisecond, Dir: t.TempDir()})
		cfg := h.Provider.(sim.Config)
		f := newFront(t, cfg.Cloud)
		h.Provider = sim.Config{Endpoint: f.URL, Token: cfg.Token}
		h.MissingKey = &providertest.MissingKey{Provider: sim.Config{Endpoint: f.URL}, Names: "Config.Token"}
		h.WrongKey = sim.Config{Endpoint: f.URL, Token: "sk-wrong"}
		h.Fault, h.Calls = providertest.OnServer(f, frontOps())
		delete(h.Without, "calls that are redirected to another server")
		return h
	})
}
