package recovery

import (
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// A node that reports another architecture than the spec's is refused if its offer names none.
func TestNodeOfAnotherArchitecture(t *testing.T) {
	offer := e2etest.OfferAt("here", 0.1)
	offer.Arch = ""
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{offer}}, func(t *testing.T, c *e2etest.SimCloud) {
		_, err := c.Open(t, gputrain.Spec{Nodes: 1, Arch: "vax"})
		if !errors.Is(err, gputrain.ErrNoOffers) || !strings.Contains(err.Error(), "the spec asks for vax") {
			t.Errorf("got %v", err)
		}
		if n := c.CountMachines(); n > 0 {
			t.Errorf("%d machines are left", n)
		}
	})
}
