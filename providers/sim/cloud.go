package sim

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain"
)

// A Cloud is a simulated cloud: its offers, machines, networks, keys, and what
// goes wrong. It outlives the pools that rent from it. All methods can be called
// at the same time. Its owner closes it.
type Cloud struct {
	opts   Options //secretvet:ignore without the token
	name   string
	admits func(token gputrain.Secret) bool

	wg     sync.WaitGroup // timers, machines, late effects, servers
	life   context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	closed   bool
	offers   []*offer
	faults   []*Fault
	outages  []outage
	machines []*machine // in the order of their launch, also those that are gone
	shared   []*shared
	tokens   map[string]*launched
	pools    map[string]int // in the order in which they came
	launches map[string]int // by pool and rank
	cut      bool
	timers   map[*time.Timer]bool
	servers  []*http.Server
	calls    int
	log      []*Call
	events   []Event
}

// An offer is one with what is left of it.
type offer struct {
	gputrain.Offer
	endless bool
}

// New returns a cloud in which nobody has rented anything.
func New(o Options) *Cloud {
	c := &Cloud{
		opts: o, name: cmp.Or(o.Name, "sim-"+strings.ToLower(rand.Text()[:8])),
		tokens: map[string]*launched{}, pools: map[string]int{}, launches: map[string]int{}, timers: map[*time.Timer]bool{},
	}
	// A field that is a token would be printed with the cloud.
	token := o.Token
	c.admits = func(t gputrain.Secret) bool { return token == "" || t == token }
	c.opts.Token = ""
	c.life, c.cancel = context.WithCancel(context.Background())
	if o.Offers == nil {
		o.Offers = defaultOffers()
	}
	c.SetOffers(o.Offers...)
	c.addFaults(o.Faults)
	return c
}

// SetOffers replaces what can be rented from now on. Machines that exist keep
// their price.
func (c *Cloud) SetOffers(offers ...gputrain.Offer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offers = nil
	for i, o := range offers {
		o.Provider = name
		o.ID = cmp.Or(o.ID, fmt.Sprintf("offer-%d", i+1))
		c.offers = append(c.offers, &offer{Offer: o, endless: o.Available == 0})
	}
}

// SetPrice changes what an offer costs from now on. The zero Price is one that
// the cloud does not tell, and charges nothing for.
func (c *Cloud) SetPrice(offerID string, price gputrain.Price) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.offers {
		if o.ID == offerID {
			o.HourlyUSD = price
		}
	}
}

// Close ends every machine, and returns when nothing of the cloud is left.
func (c *Cloud) Close() error {
	c.mu.Lock()
	c.closed = true
	for t := range c.timers {
		if t.Stop() {
			c.wg.Done()
		}
	}
	clear(c.timers)
	machines, servers := slices.Clone(c.machines), c.servers
	c.mu.Unlock()
	c.cancel()
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Close())
	}
	c.stop(machines)
	c.mu.Lock()
	for _, m := range machines {
		m.over(gputrain.InstanceTerminated, "the cloud was closed", byCloud)
	}
	c.mu.Unlock()
	c.wg.Wait()
	for _, m := range machines {
		if m.node != nil {
			errs = append(errs, m.node.wait())
		}
	}
	return errors.Join(errs...)
}

// after has f called after a while, with c.mu held, unless the cloud is closed
// first. c.mu is held.
func (c *Cloud) after(d time.Duration, f func()) *time.Timer {
	if c.closed {
		return nil
	}
	c.wg.Add(1)
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		defer c.wg.Done()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timers, t)
		if !c.closed {
			f()
		}
	})
	c.timers[t] = true
	return t
}

// stopTimer gives a timer of after up. c.mu is held.
func (c *Cloud) stopTimer(t *time.Timer) {
	if t != nil && c.timers[t] && t.Stop() {
		delete(c.timers, t)
		c.wg.Done()
	}
}

// machine returns one by its ID, or nil. c.mu is held.
func (c *Cloud) machine(id string) *machine {
	for _, m := range c.machines {
		if m.inst.ID == id {
			return m
		}
	}
	return nil
}

// Live returns everything that exists in truth, whatever lists say: machines
// that are not gone, networks and keys. An account that nothing was left in has none.
func (c *Cloud) Live() []gputrain.Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	var live []gputrain.Resource
	for _, m := range c.machines {
		if m.exists() {
			live = append(live, m.resource())
		}
	}
	for _, s := range c.shared {
		live = append(live, s.Resource)
	}
	return live
}

// Machines returns the machines of a pool as they are in truth, also those that
// are gone; of all pools where poolID is empty.
func (c *Cloud) Machines(poolID string) []gputrain.Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []gputrain.Instance
	for _, m := range c.machines {
		if poolID == "" || m.pool.ID == poolID {
			all = append(all, m.inst)
		}
	}
	return all
}

// Doubles returns the names under which two machines have existed at the same
// time, unless [Duplicate] has made the second.
func (c *Cloud) Doubles() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	doubles := map[string]bool{}
	for i, m := range c.machines {
		for _, other := range c.machines[:i] {
			if m.inst.Name == other.inst.Name && !m.duplicate && (other.exists() || other.ended.After(m.began)) {
				doubles[m.inst.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(doubles))
}

// BilledUSD returns what the machines of a pool have cost so far, each in whole
// units of its offer's BillingUnit; of all pools where poolID is empty.
func (c *Cloud) BilledUSD(poolID string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum float64
	for _, m := range c.machines {
		if poolID == "" || m.pool.ID == poolID {
			sum += m.billed()
		}
	}
	return sum
}
