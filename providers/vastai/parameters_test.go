package vastai

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A bid is BidMultiplier times the lowest one.
func TestBidMultiplier(t *testing.T) {
	t.Parallel()
	f := startFake(t, row{"min_bid": 0.5})
	f.noMachines = true
	spec := gputrain.Spec{Allocation: driver.Spot}
	d := prepared(t, f, func(c *Config) { c.BidMultiplier = 1.75 })
	if _, err := d.Launch(t.Context(), request(spec, cloudtest.AllOffers(t, d, spec.Query())[0], 0)); err != nil {
		t.Fatal(err)
	}
	var in createRequest
	if err := json.Unmarshal([]byte(f.Records(opCreate)[0].Body), &in); err != nil || in.Price == nil || *in.Price != 0.875 {
		t.Errorf("%s, %v", f.Records(opCreate)[0].Body, err)
	}
}

// A network that does not come up is waited for as long as OverlayTimeout says, and nothing is rented without it.
func TestOverlayTimeout(t *testing.T) {
	t.Parallel()
	f := startFake(t, row{"cluster_id": 42, "machine_id": 1}, row{"cluster_id": 42, "machine_id": 2})
	f.noMachines = true
	d := prepared(t, f, overlayed, func(c *Config) { c.OverlayTimeout = time.Second })
	f.Inject(fakecloud.Fault{Op: opAddNet, Times: -1, Answer: fakecloud.Reply(200, row{"success": true})}) // and it is in no list
	spec := gputrain.Spec{Nodes: 2}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the default is two
	defer cancel()
	_, err := d.Launch(ctx, request(spec, cloudtest.Offers(t, d, spec.Query())[0], 0))
	if !errors.Is(err, driver.ErrNoCapacity) || !strings.Contains(err.Error(), "a longer OverlayTimeout") || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
	if n := len(f.Records(opCreate)); n != 0 {
		t.Errorf("%d machines", n)
	}
}
