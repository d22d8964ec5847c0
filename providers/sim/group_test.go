package sim_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/providertest"
	"github.com/gputrain/gputrain/providers/sim"
)

// The suite passes with two clouds in this program as one provider. The first is cheaper; the
// suite launches in either.
func TestConformanceOfCheapest(t *testing.T) { conformanceOfGroup(t, gputrain.Cheapest) }

func TestConformanceOfFirstOf(t *testing.T) { conformanceOfGroup(t, gputrain.FirstOf) }

func conformanceOfGroup(t *testing.T, group func(...driver.Provider) driver.Provider) {
	providertest.RunInBubble(t, func(t *testing.T) providertest.Harness {
		o := sim.Options{Token: "sk-sim-test", BootTime: time.Second, ListLag: 5 * time.Second, NoTokens: true, Exec: greet}
		cheap := harness(t, o)
		o.Offers = []driver.Offer{{HourlyUSD: driver.USD(2), InstanceType: "large", Region: "east-2", Country: "US"}}
		dear := harness(t, o)
		first, second := cheap.Provider.(sim.Config), dear.Provider.(sim.Config)
		second.Account = "second"
		both := []half{{t, cheap, first}, {t, dear, second}}
		h := cheap
		h.Provider, h.Members = group(first, second), []string{"sim"}
		h.Account = func() (all []driver.Resource) {
			for _, b := range both {
				all = append(all, b.account()...)
			}
			return all
		}
		h.Calls = func(op providertest.Op) int { return cheap.Calls(op) + dear.Calls(op) }
		h.Fault = func(op providertest.Op, f providertest.Fault) func() {
			one, other := cheap.Fault(op, f), dear.Fault(op, f)
			if one == nil {
				return nil
			}
			return func() { one(); other() }
		}
		h.Foreign = func() []string { return append(both[0].foreign(), both[1].foreign()...) }
		h.States = func() []providertest.StateCase {
			all := cheap.States()
			for i := range all {
				all[i].Set = func(id string) {
					for _, b := range both {
						if own, ok := strings.CutPrefix(id, b.prefix()); ok {
							b.States()[i].Set(own)
						}
					}
				}
			}
			return all
		}
		h.Stall = func() { cheap.Stall(); dear.Stall() }
		h.Room = func(n int) { cheap.Room(n); dear.Room(0) }
		h.Funds = func(usd float64) { cheap.Funds(usd); dear.Funds(usd) }
		h.Tags = func(id string) map[string]string {
			for _, b := range both {
				if own, ok := strings.CutPrefix(id, b.prefix()); ok {
					return b.Tags(own)
				}
			}
			return nil
		}
		h.Unpriced = func() { cheap.Unpriced(); second.Cloud.SetOffers(driver.Offer{InstanceType: "large"}) }
		h.MissingKey = &providertest.MissingKey{Provider: group(sim.Config{Cloud: first.Cloud}, sim.Config{Cloud: second.Cloud}), Names: "Config.Token"}
		h.WrongKey = group(sim.Config{Cloud: first.Cloud, Token: "sk-wrong"}, sim.Config{Cloud: second.Cloud, Token: "sk-wrong"})
		h.Dial = func(ctx context.Context, addr string) (net.Conn, error) { return dial(ctx, addr, both) }
		h.Without["end to end with a function on each node"] = "functions need real processes, with which each cloud's own suite runs"
		for _, name := range []string{"ambiguous launch: garbage after it was done", "ambiguous launch: empty after it was done",
			"read that is never answered well: garbage", "read that is never answered well: empty", "read that is never answered well: huge",
			"read that is never answered well: astray", "terminate: html before it was done", "terminate: astray before it was done"} {
			h.Without[name] = noAnswer
		}
		return h
	})
}

// A half is one of the two clouds, with the group's prefix for its machines.
type half struct {
	t *testing.T
	providertest.Harness
	cfg sim.Config
}

func (b half) prefix() string {
	d, err := gputrain.Cheapest(b.cfg).Open(context.WithoutCancel(b.t.Context()))
	if err != nil {
		b.t.Fatal(err)
	}
	defer d.Close()
	return d.Capabilities().Account + "/"
}

func (b half) account() []driver.Resource {
	all := b.Account()
	if len(all) == 0 {
		return nil
	}
	prefix := b.prefix()
	for i, r := range all {
		all[i].ID = prefix + r.ID
		if r.Kind != "machine" {
			all[i].Name = prefix + r.Name
		}
	}
	return all
}

func (b half) foreign() []string {
	ids := b.Foreign()
	prefix := b.prefix()
	for i, id := range ids {
		ids[i] = prefix + id
	}
	return ids
}

// dial connects to the machine with an address.
func dial(ctx context.Context, addr string, both []half) (net.Conn, error) {
	for _, b := range both {
		d, err := b.cfg.Open(ctx)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		var ids []string
		for _, m := range b.cfg.Cloud.Machines("") {
			ids = append(ids, m.ID)
		}
		found, err := d.Describe(ctx, ids...)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(found, func(in driver.Instance) bool {
			return in.SSH.Addr == addr && in.State == driver.InstanceRunning
		})
		if i >= 0 {
			return d.(driver.Dialer).Dial(ctx, found[i])
		}
	}
	return nil, errors.New("no machine has this address")
}
