package vastai

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/localnet"
)

// A driver rents the machines of one pool. What it remembers spares calls and keeps it
// from what has gone wrong before: a driver that knows nothing works, too.
type driver struct {
	cfg     Config //secretvet:ignore complete, without the key
	api     *client
	account string
	opened  time.Time
	lists   *singleflight.Group // whose goroutines may go on while a driver is printed
	life    context.Context     // of calls that several callers wait for: Close ends it
	end     context.CancelFunc

	mu       sync.Mutex
	found    map[string]find     // by the ID of the offer
	made     map[string]*machine // by the ID of the instance
	logs     map[string]*keyLog  // by the ID of the instance
	broken   map[int64]bool      // machines whose instance failed
	networks map[string]bool     // pools that were seen to have one
	cluster  int64               // that the pool's network is in; zero while it has none, or none is known
	pool     string              // whose instances MarkLease was called for
	refusal  refusal

	network sync.Mutex // held while that is made
}

// A machine is an instance that this driver has launched.
type machine struct {
	offer   gputrain.Offer
	machine int64
	at      time.Time // when it was made
	ended   bool      // it was asked for, and granted
	bulk    bool      // so, together with others
	absent  bool      // it was asked for, and Vast.ai found nothing to end
}

var (
	_ gputrain.Driver         = (*driver)(nil)
	_ gputrain.SelfDestructor = (*driver)(nil)
	_ gputrain.LeaseMarker    = (*driver)(nil)
	_ gputrain.AddressFinder  = (*driver)(nil)
)

func newDriver(cfg Config, key string) (*driver, error) {
	api, err := newClient(cfg, key)
	if err != nil {
		return nil, fmt.Errorf("%w: Endpoint: %w", gputrain.ErrInvalid, err)
	}
	life, end := context.WithCancel(context.Background())
	return &driver{
		cfg: cfg, api: api, opened: time.Now(), lists: new(singleflight.Group), life: life, end: end,
		found: map[string]find{}, made: map[string]*machine{}, broken: map[int64]bool{}, logs: map[string]*keyLog{}, networks: map[string]bool{},
	}, nil
}

const (
	// lateEffect is how long a request that nobody waits for may take. Vast states
	// nothing of the kind: its own command line waits as long for an answer, so that
	// none is to be expected later.
	lateEffect = 2 * time.Minute
	// provisionTimeout covers a pull, which takes 1 to 5 minutes, and on a slow host
	// up to loadTimeout.
	provisionTimeout = 15 * time.Minute
)

// createLag is how long an instance that was just made may be missing from what the API
// tells. It is an estimate: Vast states no such time, and other programs that rent there
// tell only that a read has to be repeated after a create. What turns up later than this
// was taken for gone, or for never made, and is ended by the pool's audits.
func createLag() time.Duration { return 15 * second }

// Capabilities says what Vast.ai can do.
func (d *driver) Capabilities() gputrain.Capabilities {
	keys := gputrain.HostKeyPublished
	if d.cfg.TrustFirstContact {
		keys = gputrain.HostKeyFirstContact
	}
	return gputrain.Capabilities{
		Account:          d.account,
		LocalAddresses:   localnet.IsURL(d.cfg.Endpoint),
		ListLag:          createLag(),
		LateEffect:       lateEffect,
		Spot:             true,
		EndsBilling:      "destroy",
		PrivateNetwork:   d.cfg.UseOverlay,
		DiskResizable:    true,
		Tags:             true,
		HostKeys:         keys,
		ProvisionTimeout: provisionTimeout,
	}
}

// Describe reports the named machines, by one list of all. The nodes of a pool ask one by
// one, and the API bears a call each second or two: who asks at the same time gets the
// same list.
func (d *driver) Describe(ctx context.Context, ids ...string) ([]gputrain.Instance, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	listed, err := d.listAll(ctx)
	if err != nil {
		return nil, fail("describe", err)
	}
	byID := map[string]*instance{}
	for i := range listed {
		byID[strconv.FormatInt(listed[i].ID, 10)] = &listed[i]
	}
	there := make([]*instance, len(ids))
	for i, id := range ids {
		in := byID[id]
		if in == nil && !d.hasEnded(id) && isID(id) {
			// That a list lacks it does not say that it is gone.
			if in, err = d.api.instance(ctx, id); err != nil && !isGone(err) {
				return nil, fail("describe", err)
			}
		}
		there[i] = in
	}
	d.learnHostKeys(ctx, slices.DeleteFunc(slices.Clone(there), func(in *instance) bool { return in == nil }))
	var found []gputrain.Instance
	for i, in := range there {
		if in == nil {
			found = append(found, d.missing(ids[i]))
		} else {
			found = append(found, d.describe(*in))
		}
	}
	return found, nil
}

// listAll returns all instances of the account.
func (d *driver) listAll(ctx context.Context) ([]instance, error) {
	done := d.lists.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(d.life, time.Minute)
		defer cancel()
		return d.api.list(ctx, nil)
	})
	select {
	case r := <-done:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.([]instance), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (d *driver) hasEnded(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.made[id]
	return m != nil && m.ended
}

// missing is what a machine is taken for that the API does not know: gone, unless it may
// be too new to be known.
func (d *driver) missing(id string) gputrain.Instance {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := gputrain.Instance{ID: id, State: gputrain.InstanceTerminated, StateReason: "Vast.ai does not know it"}
	since := d.opened
	m := d.made[id]
	if m != nil {
		in.Offer, since = m.offer, m.at
	}
	if !isID(id) || m != nil && m.ended || time.Since(since) >= createLag() {
		return in
	}
	in.State, in.StateReason = gputrain.InstanceUnknown, "Vast.ai does not know it, or not yet"
	if m != nil {
		in.State = gputrain.InstancePending
	}
	return in
}

// isID reports whether an ID can be one of Vast.ai's, which are numbers.
func isID(id string) bool {
	n, err := strconv.ParseInt(id, 10, 64)
	return err == nil && n > 0 && strconv.FormatInt(n, 10) == id
}

// List reports the instances and SSH keys of a pool, or of all, and their networks. It
// asks for networks only where there may be one.
func (d *driver) List(ctx context.Context, poolID string) ([]gputrain.Resource, error) {
	if poolID != "" {
		if err := checkPool(poolID); err != nil {
			return nil, fail("list", err)
		}
	}
	resources, err := d.list(ctx, poolID)
	return resources, fail("list", err)
}

func (d *driver) list(ctx context.Context, poolID string) ([]gputrain.Resource, error) {
	instances, err := d.api.list(ctx, nil)
	if err != nil {
		return nil, err
	}
	resources := []gputrain.Resource{}
	for _, in := range instances {
		t, ok := labelOf(in)
		if !ok || poolID != "" && t.pool != poolID {
			continue
		}
		r := t.resource("machine", strconv.FormatInt(in.ID, 10))
		now := d.describe(in)
		if now.State == gputrain.InstanceTerminated {
			continue
		}
		r.State, r.Region, r.HourlyUSD = now.State, now.Offer.Region, now.Offer.HourlyUSD
		if r.Created.IsZero() && in.StartDate != nil {
			r.Created = time.Unix(int64(*in.StartDate), 0)
		}
		resources = append(resources, r)
	}
	shared, err := d.listShared(ctx, poolID)
	if err != nil {
		return nil, err
	}
	return append(resources, shared...), nil
}

// Close gives back idle connections, and gives up a list that somebody waits for.
func (d *driver) Close() error {
	d.end()
	d.api.rest.Close()
	d.api.close()
	return nil
}
