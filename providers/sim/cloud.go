package sim

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A Cloud is a simulated cloud: its offers, machines, networks, keys, and faults. It outlives
// the pools that rent from it. All methods can be called at the same time. Its owner closes it.
type Cloud struct {
	opts   Options //secretvet:ignore without the token
	name   string
	admits func(token driver.Secret) bool
	life   life

	mu      sync.Mutex // guards the fields below, and everything in them
	trouble trouble
	record  record
	catalog catalog
	fleet   fleet
	api     api
	servers []*http.Server
}

// New returns a cloud in which nothing is rented.
func New(o Options) *Cloud {
	c := &Cloud{opts: o, name: cmp.Or(o.Name, "sim-"+strings.ToLower(rand.Text()[:8]))}
	// A field with the token would be printed with the cloud.
	token := o.Token
	c.admits = func(t driver.Secret) bool { return token == "" || t == token }
	c.opts.Token = ""
	c.life.mu, c.life.timers = &c.mu, map[*time.Timer]bool{}
	c.life.ctx, c.life.cancel = context.WithCancel(context.Background())
	c.trouble = trouble{seed: o.Seed, lag: o.ListLag}
	c.fleet = fleet{mu: &c.mu, opts: &c.opts, life: &c.life, record: &c.record, pools: map[string]int{}, launches: map[string]int{}}
	c.api = api{cloud: c.name, opts: &c.opts, catalog: &c.catalog, fleet: &c.fleet, record: &c.record, tokens: map[string]*launched{}}
	if o.Offers == nil {
		o.Offers = defaultOffers()
	}
	c.catalog.set(o.Offers)
	c.trouble.add(o.Faults)
	return c
}

// SetOffers replaces the offers from now on. Existing machines keep their price.
func (c *Cloud) SetOffers(offers ...driver.Offer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.catalog.set(offers)
}

// SetPrice changes the price of an offer from now on. With the zero Price the cloud reports no
// price and charges nothing.
func (c *Cloud) SetPrice(offerID string, price driver.Price) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.catalog.find(offerID); o != nil {
		o.HourlyUSD = price
	}
}

// MovePrice changes the price of an offer, and of its machines, from now on, as a spot price moves.
func (c *Cloud) MovePrice(offerID string, price driver.Price) {
	c.SetPrice(offerID, price)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.fleet.machines {
		if m.offer.ID == offerID {
			m.move(price)
		}
	}
}

// SetAccount changes the money of each account, and how many machines it may have: Options.Quota. Launches of an account
// without money fail. Drivers know both if Options.TellsAccount is true. Before the first call accounts pay later, by
// invoice.
func (c *Cloud) SetAccount(change func(money *driver.Balance, quota *int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.api.balance, &c.opts.Quota)
}

// Tags returns the tags that a machine has by PoolInfo.Tags.
func (c *Cloud) Tags(id string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.fleet.machine(id); m != nil {
		return maps.Clone(m.pool.Tags)
	}
	return nil
}

// Close ends every machine, and returns once nothing of the cloud is left.
func (c *Cloud) Close() error {
	c.mu.Lock()
	c.life.close()
	servers := c.servers
	c.mu.Unlock()
	c.life.cancel()
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Close())
	}
	errs = append(errs, c.fleet.close())
	return errors.Join(errs...)
}

// Live returns everything that really exists, whatever lists say: machines that are not gone,
// networks and keys. It is empty for an account without leftovers.
func (c *Cloud) Live() []driver.Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	var live []driver.Resource
	for _, m := range c.fleet.machines {
		if m.exists() {
			live = append(live, m.resource())
		}
	}
	for _, s := range c.api.shared {
		live = append(live, s.Resource)
	}
	return live
}

// Machines returns the machines of a pool as they really are, also those that are gone; of all
// pools if poolID is empty.
func (c *Cloud) Machines(poolID string) []driver.Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []driver.Instance
	for m := range c.fleet.ofPool(poolID) {
		all = append(all, m.inst)
	}
	return all
}

// Doubles returns the names that two machines had at the same time, unless [Duplicate] made the
// second.
func (c *Cloud) Doubles() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fleet.doubles()
}

// BilledUSD returns the cost of a pool's machines so far, each in whole units of its offer's
// BillingUnit; of all pools if poolID is empty.
func (c *Cloud) BilledUSD(poolID string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum float64
	for m := range c.fleet.ofPool(poolID) {
		sum += m.billed()
	}
	return sum
}
