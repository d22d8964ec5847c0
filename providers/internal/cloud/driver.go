package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/internal/sshkey"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// A Driver is the driver of an [API]. What it remembers saves calls. A driver that remembers
// nothing works, too.
type Driver struct {
	api      API
	provider string
	opts     Options
	opened   time.Time
	lists    *singleflight.Group // its goroutines may run while a driver is printed
	life     context.Context     // of lists that several callers share; Close ends it
	end      context.CancelFunc

	mu   sync.Mutex
	made map[string]made //secretvet:ignore without private keys; by the ID of the machine
}

// made has the facts that the driver remembers of a machine that it has launched or ended.
type made struct {
	node   driver.NodeRequest //secretvet:ignore without the private host key
	offer  driver.Offer
	sight  Sight
	asked  bool // the driver has asked the cloud to end it
	absent bool // the cloud did not know it then
}

var _ driver.Driver = (*Driver)(nil)

// New returns the driver of a cloud.
func New(provider string, api API, opts Options) *Driver {
	opts.AtOnce = cmp.Or(opts.AtOnce, 4)
	life, end := context.WithCancel(context.Background())
	return &Driver{
		api: api, provider: provider, opts: opts, opened: time.Now(), lists: new(singleflight.Group),
		life: life, end: end, made: map[string]made{},
	}
}

// API returns the API that New was given, for tests.
func (d *Driver) API() API { return d.api }

// Capabilities returns the API's.
func (d *Driver) Capabilities() driver.Capabilities { return d.api.Capabilities() }

// Offers yields the API's, with their provider.
func (d *Driver) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		ctx, odd := rest.Lenient(ctx)
		for o, err := range d.api.Offers(ctx, spec) {
			if err != nil {
				yield(driver.Offer{}, d.fail("offers", err))
				return
			}
			o.Provider = d.provider
			if !yield(o, nil) {
				return
			}
		}
		rows, more := odd.Rows()
		if more > 0 {
			rows = append(rows, fmt.Errorf("and %d more", more))
		}
		if len(rows) > 0 {
			why := d.fail("offers", fmt.Errorf("%w: what cannot be read is left out: %w", driver.ErrUnsupported, errors.Join(rows...)))
			yield(driver.Offer{}, &driver.PartialError{Sources: []driver.SourceError{{Provider: d.provider, Err: why}}})
		}
	}
}

// Prepare makes the things that the machines of a pool share.
func (d *Driver) Prepare(ctx context.Context, pool driver.PoolInfo) error {
	if err := pooltag.CheckPool(pool.ID); err != nil {
		return d.fail("prepare", err)
	}
	if err := sshkey.CheckPublic(pool.AuthorizedKey); err != nil {
		return d.fail("prepare", fmt.Errorf("%w: the pool's public key: %w", driver.ErrInvalid, err))
	}
	return d.fail("prepare", d.api.Prepare(ctx, pool))
}

// Release removes the things that Prepare has made.
func (d *Driver) Release(ctx context.Context, pool driver.PoolInfo) error {
	if err := pooltag.CheckPool(pool.ID); err != nil {
		return d.fail("release", err)
	}
	return d.fail("release", d.api.Release(ctx, pool))
}

// List lists the machines of a pool, or of all pools, and what they share.
func (d *Driver) List(ctx context.Context, poolID string) ([]driver.Resource, error) {
	if poolID != "" {
		if err := pooltag.CheckPool(poolID); err != nil {
			return nil, d.fail("list", err)
		}
	}
	machines, err := d.api.Machines(ctx, poolID)
	if err != nil {
		return nil, d.fail("list", err)
	}
	resources := []driver.Resource{}
	for _, m := range machines {
		in := d.instance(m)
		if poolID != "" && m.Tag.Pool == poolID {
			d.know(m.ID, func(known *made) { known.sight.Seen(in.State) })
		}
		if m.Tag.Pool == "" || poolID != "" && m.Tag.Pool != poolID || in.State == driver.InstanceTerminated {
			continue
		}
		r := m.Tag.Resource(d.provider, "machine", m.ID)
		r.Name, r.Doubt, r.State, r.Region, r.HourlyUSD = cmp.Or(m.ListAs, in.Name), m.Doubt, in.State, cmp.Or(m.Region, in.Offer.Region), in.Offer.HourlyUSD
		resources = append(resources, r)
	}
	shared, err := d.api.Shared(ctx, poolID)
	if err != nil {
		return nil, d.fail("list", err)
	}
	for _, r := range shared {
		if poolID == "" || r.Pool == poolID {
			r.Provider = d.provider
			resources = append(resources, r)
		}
	}
	return resources, nil
}

// Terminate ends the machines, whatever the cloud shows of them.
func (d *Driver) Terminate(ctx context.Context, ids ...string) error {
	d.lookFirst(ctx, ids)
	for _, id := range ids {
		d.know(id, func(m *made) { m.asked = true })
	}
	var errs []error
	for i, err := range d.endAll(ctx, ids) {
		switch id := ids[i]; {
		case err == nil:
			d.know(id, func(m *made) { m.sight.Ended(true) })
		case errors.Is(err, ErrUnproven):
		case d.isGone(err): // it may be too new: Describe decides that it is gone
			d.know(id, func(m *made) {
				m.absent = true
				m.sight.Ended(false)
			})
		default:
			errs = append(errs, d.fail("terminate", about(id, err)))
		}
	}
	return errors.Join(errs...)
}

// lookFirst looks at machines that no answer of the cloud has shown yet: one that was shown before its end is known to be
// gone once it is absent.
func (d *Driver) lookFirst(ctx context.Context, ids []string) {
	var g errgroup.Group
	g.SetLimit(d.opts.AtOnce)
	for _, id := range ids {
		if known := d.known(id); known.asked || known.sight.IsSeen() {
			continue
		}
		g.Go(func() error {
			if m, err := d.api.Machine(ctx, id); err == nil {
				d.shown(m)
			}
			return nil
		})
	}
	_ = g.Wait() // a failed look shows nothing
}

func (d *Driver) endAll(ctx context.Context, ids []string) []error {
	if ender, ok := d.api.(Ender); ok {
		return ender.EndAll(ctx, ids)
	}
	return EndEach(ctx, ids, d.opts.AtOnce, d.api.End)
}

// EndEach ends machines one by one, at most atOnce at the same time, and returns the errors in
// their order.
func EndEach(ctx context.Context, ids []string, atOnce int, end func(ctx context.Context, id string) error) []error {
	errs := make([]error, len(ids))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, id := range ids {
		g.Go(func() error {
			errs[i] = end(ctx, id)
			return nil
		})
	}
	_ = g.Wait() // errs has all errors
	return errs
}

// know changes what is remembered of a machine.
func (d *Driver) know(id string, change func(*made)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.made[id]
	change(&m)
	d.made[id] = m
}

// known returns what is remembered of a machine.
func (d *Driver) known(id string) made {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made[id]
}

// Close closes connections. It touches no machine.
func (d *Driver) Close() error {
	d.end()
	d.api.Close()
	return nil
}

func (d *Driver) fail(op string, err error) error { return Fail(d.provider, op, err, d.api.Classify) }

func (d *Driver) isGone(err error) bool {
	_, kind := kindOf("", lastOf(err), d.api.Classify)
	return kind == driver.ErrNotFound
}

// check refuses a bad order before anything is rented.
func (d *Driver) check(req driver.Launch) error {
	if err := pooltag.CheckPool(req.Pool.ID); err != nil {
		return err
	}
	if err := sshkey.CheckPublic(req.Pool.AuthorizedKey); err != nil {
		return fmt.Errorf("%w: the pool's public key: %w", driver.ErrInvalid, err)
	}
	injected := d.api.Capabilities().HostKeys == driver.HostKeyInjected
	for _, n := range req.Nodes {
		if err := pooltag.CheckNode(req.Pool.ID, n.Name); err != nil {
			return err
		}
		if injected && (n.HostKey.Private == "" || strings.TrimSpace(n.HostKey.Public) == "") {
			return fmt.Errorf("%w: %s has no host key", driver.ErrInvalid, n.Name)
		}
	}
	return nil
}

func byRank(a, b driver.Instance) int { return a.Rank - b.Rank }

func sorted(all []driver.Instance) []driver.Instance {
	slices.SortFunc(all, byRank)
	return all
}
