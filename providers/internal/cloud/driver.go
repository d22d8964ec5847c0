package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/sshkey"
)

// A Driver is the driver of an [API]. What it remembers spares calls; one that knows nothing
// works, too.
type Driver struct {
	api      API
	provider string
	opts     Options
	opened   time.Time
	lists    *singleflight.Group // whose goroutines may go on while a driver is printed
	life     context.Context     // of lists that several callers wait for: Close ends it
	end      context.CancelFunc

	mu   sync.Mutex
	made map[string]made //secretvet:ignore without private keys; by the ID of the machine
}

// What was made is known of a machine that this driver has launched, or ended.
type made struct {
	node   gputrain.NodeRequest //secretvet:ignore without the private host key
	offer  gputrain.Offer
	at     time.Time // when it was made
	asked  bool      // to end
	ended  bool      // that was granted
	absent bool      // that found no such machine
}

var _ gputrain.Driver = (*Driver)(nil)

// New returns the driver of a cloud.
func New(provider string, api API, opts Options) *Driver {
	opts.AtOnce = cmp.Or(opts.AtOnce, 4)
	life, end := context.WithCancel(context.Background())
	return &Driver{
		api: api, provider: provider, opts: opts, opened: time.Now(), lists: new(singleflight.Group),
		life: life, end: end, made: map[string]made{},
	}
}

// API returns what New was given, for tests.
func (d *Driver) API() API { return d.api }

// Capabilities are the API's.
func (d *Driver) Capabilities() gputrain.Capabilities { return d.api.Capabilities() }

// Offers are the API's, with their provider.
func (d *Driver) Offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		for o, err := range d.api.Offers(ctx, spec) {
			if err != nil {
				yield(gputrain.Offer{}, d.fail("offers", err))
				return
			}
			o.Provider = d.provider
			if !yield(o, nil) {
				return
			}
		}
	}
}

// Prepare makes what the machines of a pool share.
func (d *Driver) Prepare(ctx context.Context, pool gputrain.PoolInfo) error {
	if err := checkPool(pool.ID); err != nil {
		return d.fail("prepare", err)
	}
	if err := sshkey.CheckPublic(pool.AuthorizedKey); err != nil {
		return d.fail("prepare", fmt.Errorf("%w: the pool's public key: %w", gputrain.ErrInvalid, err))
	}
	return d.fail("prepare", d.api.Prepare(ctx, pool))
}

// Release removes what Prepare made.
func (d *Driver) Release(ctx context.Context, pool gputrain.PoolInfo) error {
	if err := checkPool(pool.ID); err != nil {
		return d.fail("release", err)
	}
	return d.fail("release", d.api.Release(ctx, pool))
}

// List reports the machines of a pool, or of all pools, and what they share.
func (d *Driver) List(ctx context.Context, poolID string) ([]gputrain.Resource, error) {
	if poolID != "" {
		if err := checkPool(poolID); err != nil {
			return nil, d.fail("list", err)
		}
	}
	machines, err := d.api.Machines(ctx, poolID)
	if err != nil {
		return nil, d.fail("list", err)
	}
	resources := []gputrain.Resource{}
	for _, m := range machines {
		in := d.instance(m)
		if m.Tag.Pool == "" || poolID != "" && m.Tag.Pool != poolID || in.State == gputrain.InstanceTerminated {
			continue
		}
		r := m.Tag.Resource(d.provider, "machine", m.ID)
		r.Name, r.State, r.Region, r.HourlyUSD = in.Name, in.State, in.Offer.Region, in.Offer.HourlyUSD
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

// Terminate ends the machines.
func (d *Driver) Terminate(ctx context.Context, ids ...string) error {
	var (
		g    errgroup.Group
		mu   sync.Mutex
		errs []error
	)
	g.SetLimit(d.opts.AtOnce)
	for _, id := range ids {
		g.Go(func() error {
			d.know(id, func(m *made) { m.asked = true })
			err := d.api.End(ctx, id)
			switch {
			case err == nil:
				d.know(id, func(m *made) { m.ended = true })
			case d.isGone(err): // it may be too new: Describe has to say that it is gone
				d.know(id, func(m *made) { m.absent = true })
			default:
				mu.Lock()
				errs = append(errs, d.fail("terminate", about(id, err)))
				mu.Unlock()
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs, all of them
	return errors.Join(errs...)
}

// know changes what is known of a machine.
func (d *Driver) know(id string, change func(*made)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.made[id]
	change(&m)
	d.made[id] = m
}

// known is what is known of a machine.
func (d *Driver) known(id string) made {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made[id]
}

// Close gives back connections. No machine is touched.
func (d *Driver) Close() error {
	d.end()
	d.api.Close()
	return nil
}

func (d *Driver) fail(op string, err error) error { return Fail(d.provider, op, err, d.api.Classify) }

func (d *Driver) isGone(err error) bool {
	_, kind := kindOf("", lastOf(err), d.api.Classify)
	return kind == gputrain.ErrNotFound
}

var poolForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

func checkPool(id string) error {
	if !poolForm.MatchString(id) {
		return fmt.Errorf("%w: %q is not the ID of a pool", gputrain.ErrInvalid, id)
	}
	return nil
}

// check refuses an order before anything is rented.
func (d *Driver) check(req gputrain.LaunchRequest) error {
	if err := checkPool(req.Pool.ID); err != nil {
		return err
	}
	if err := sshkey.CheckPublic(req.Pool.AuthorizedKey); err != nil {
		return fmt.Errorf("%w: the pool's public key: %w", gputrain.ErrInvalid, err)
	}
	injected := d.api.Capabilities().HostKeys == gputrain.HostKeyInjected
	for _, n := range req.Nodes {
		if pool, _, _, ok := ParseName(Prefix + n.Name); !ok || pool != req.Pool.ID {
			return fmt.Errorf("%w: %q is not the name of a node of %s", gputrain.ErrInvalid, n.Name, req.Pool.ID)
		}
		if injected && (n.HostKey.Private == "" || strings.TrimSpace(n.HostKey.Public) == "") {
			return fmt.Errorf("%w: %s has no host key", gputrain.ErrInvalid, n.Name)
		}
	}
	return nil
}

func byRank(a, b gputrain.Instance) int { return a.Rank - b.Rank }

func sorted(all []gputrain.Instance) []gputrain.Instance {
	slices.SortFunc(all, byRank)
	return all
}
