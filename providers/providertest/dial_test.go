package providertest

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// An undialed provider has a driver that is no Dialer, like those of most clouds.
type undialed struct{ sim.Config }

type undialedDriver struct {
	driver.Driver
	driver.Scripter
	driver.LeaseMarker
	driver.Balancer
	driver.Quoter
}

func (p undialed) Open(ctx context.Context) (driver.Driver, error) {
	d, err := p.Config.Open(ctx)
	if err != nil {
		return nil, err
	}
	s := d.(simDriver)
	return undialedDriver{s, s, s, s, s}, nil
}

// Pools and checks reach machines by Harness.Dial, and the driver keeps its other
// abilities.
func TestDial(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := harness(t, flaw{})
		cfg := h.Provider.(provider).Config
		h.Provider = undialed{cfg}
		var dialed atomic.Int32
		h.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			d, err := cfg.Open(ctx)
			if err != nil {
				return nil, err
			}
			for _, in := range cfg.Cloud.Machines("") {
				if in.SSH.Addr == addr {
					dialed.Add(1)
					return d.(driver.Dialer).Dial(ctx, in)
				}
			}
			return nil, errors.New("no machine is at " + addr)
		}
		for _, name := range []string{"launch of three", "end to end with a command on each node"} {
			before := dialed.Load()
			if failures := watch(t, named(t, name), h); len(failures) > 0 || dialed.Load() == before {
				t.Errorf("%s: dialed %d times, and it says %q", name, dialed.Load()-before, failures)
			}
		}
		d, err := viaDial(h).Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, ends := d.(driver.Scripter)
		_, marks := d.(driver.LeaseMarker)
		if !ends || !marks {
			t.Errorf("ends itself: %v, marks leases: %v", ends, marks)
		}
		h.Dial = func(context.Context, string) (net.Conn, error) { return nil, errors.New("no route") }
		if failures := watch(t, named(t, "launch of three"), h); !strings.Contains(strings.Join(failures, "\n"), "no route") {
			t.Errorf("without a route it says %q", failures)
		}
	})
}
