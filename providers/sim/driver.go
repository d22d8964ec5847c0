package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"sync"
	"time"

	"github.com/gputrain/gputrain"
)

// A driver rents the machines of one pool, as that of a real cloud does: it
// knows of the cloud only what calls answer.
type driver struct {
	cloud   *Cloud // nil where another program serves it
	send    func(context.Context, request) (answer, error)
	base    request //secretvet:ignore what all requests begin with, which has no nodes
	account account
	local   bool // the address of that program is this computer's, or its link's
	done    func()

	mu     sync.Mutex
	opened time.Time
	when   map[string]time.Time // launches returned a machine
	ended  map[string]bool      // machines that were terminated
}

// A dialer is a driver whose cloud is in this program: its machines are reached
// in memory.
type dialer struct{ *driver }

var (
	_ gputrain.Provider       = Config{}
	_ gputrain.Driver         = (*driver)(nil)
	_ gputrain.SelfDestructor = (*driver)(nil)
	_ gputrain.LeaseMarker    = (*driver)(nil)
	_ gputrain.Dialer         = (*dialer)(nil)
)

func (d *dialer) Dial(ctx context.Context, in gputrain.Instance) (net.Conn, error) {
	nc, err := d.cloud.dial(ctx, in.ID)
	if err != nil {
		return nil, fail("dial", err)
	}
	return nc, nil
}

func (d *driver) call(ctx context.Context, r request) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	r.Client, r.Account = d.base.Client, d.base.Account
	return d.send(ctx, r)
}

func (d *driver) Capabilities() gputrain.Capabilities {
	return gputrain.Capabilities{
		Account:          d.account.Name,
		ListLag:          d.account.ListLag,
		LateEffect:       time.Minute,
		Spot:             true,
		PreemptionNotice: d.account.PreemptionNotice,
		EndsBilling:      "terminate",
		PrivateNetwork:   true,
		Tags:             true,
		LocalAddresses:   d.local,
		HostKeys:         gputrain.HostKeyInjected,
		ProvisionTimeout: d.account.ProvisionTimeout,
	}
}

func (d *driver) Offers(ctx context.Context, _ gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		a, err := d.call(ctx, request{Op: OpOffers})
		if err == nil && a.Offers == nil {
			err = errGarbage
		}
		if err != nil {
			yield(gputrain.Offer{}, fail("offers", err))
			return
		}
		for _, o := range a.Offers {
			if !yield(o, nil) {
				return
			}
		}
	}
}

// sharedKinds are what Prepare makes. The network is removed first.
var sharedKinds = []string{"network", "key"}

func (d *driver) Prepare(ctx context.Context, pool gputrain.PoolInfo) error {
	for _, kind := range sharedKinds {
		r := gputrain.Resource{Kind: kind, Name: pool.ID, HourlyUSD: gputrain.USD(0)}
		if err := pool.Record(r); err != nil {
			return fail("prepare", err)
		}
		if err := d.do(ctx, request{Op: OpPrepare, Pool: pool, Kind: kind}); err != nil {
			return fail("prepare", fmt.Errorf("%s: %w", kind, err))
		}
		r.ID = kind + "-" + pool.ID
		if err := pool.Record(r); err != nil {
			return fail("prepare", err)
		}
	}
	return nil
}

func (d *driver) Release(ctx context.Context, pool gputrain.PoolInfo) error {
	var errs []error
	for _, kind := range sharedKinds {
		if err := d.do(ctx, request{Op: OpRelease, Pool: pool, Kind: kind}); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", kind, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fail("release", err)
	}
	return nil
}

// do makes a call that is answered with a yes.
func (d *driver) do(ctx context.Context, r request) error {
	a, err := d.call(ctx, r)
	if err == nil && !a.Done {
		err = errGarbage
	}
	return err
}

// createLag is how long a machine that was just made may be unknown to describe,
// which then does not mean that it is gone.
const createLag = 15 * time.Second

func (d *driver) Describe(ctx context.Context, ids ...string) ([]gputrain.Instance, error) {
	a, err := d.call(ctx, request{Op: OpDescribe, IDs: ids})
	if err == nil && a.Instances == nil {
		err = errGarbage
	}
	if err != nil {
		return nil, fail("describe", err)
	}
	byID := map[string]gputrain.Instance{}
	for _, in := range a.Instances {
		byID[in.ID] = in
	}
	var found []gputrain.Instance
	for _, id := range ids {
		in, ok := byID[id]
		if !ok {
			in = d.missing(id)
		}
		found = append(found, in)
	}
	return found, nil
}

// missing is what a machine is taken for that the cloud does not know.
func (d *driver) missing(id string) gputrain.Instance {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := gputrain.Instance{ID: id, State: gputrain.InstanceTerminated, StateReason: "the cloud does not know it"}
	since, known := d.when[id]
	if !known {
		since = d.opened
	}
	if d.ended[id] || time.Since(since) >= max(createLag, d.account.ListLag) {
		return in
	}
	in.State, in.StateReason = gputrain.InstanceUnknown, "the cloud does not know it, or not yet"
	if known {
		in.State = gputrain.InstancePending
	}
	return in
}

func (d *driver) List(ctx context.Context, poolID string) ([]gputrain.Resource, error) {
	a, err := d.call(ctx, request{Op: OpList, Pool: gputrain.PoolInfo{ID: poolID}})
	if err == nil && a.Resources == nil {
		err = errGarbage
	}
	if err != nil {
		return nil, fail("list", err)
	}
	return a.Resources, nil
}

func (d *driver) Terminate(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := d.do(ctx, request{Op: OpTerminate, IDs: ids}); err != nil {
		return fail("terminate", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		d.ended[id] = true
	}
	return nil
}

// MarkLease notes on the machines how long their pool's program is known to live.
func (d *driver) MarkLease(ctx context.Context, pool gputrain.PoolInfo, until time.Time, ids ...string) error {
	if err := d.do(ctx, request{Op: OpMarkLease, Pool: pool, IDs: ids, Until: until}); err != nil {
		return fail("mark the lease", err)
	}
	return nil
}

// SelfDestruct returns a command that ends the machine's processes and removes its
// home, which the cloud takes for its end.
func (*driver) SelfDestruct(gputrain.Instance) string {
	return "sh -c " + quote(selfDestruct) + " sh"
}

// Close gives up the connections to a cloud in another program.
func (d *driver) Close() error {
	if d.done != nil {
		d.done()
	}
	return nil
}

// fail gives a failure the form that callers see.
func fail(op string, err error) error {
	if known := (*gputrain.Error)(nil); errors.As(err, &known) {
		return err
	}
	e := &gputrain.Error{Provider: name, Op: op, Kind: kindOf(err), Err: err}
	var answered *apiError
	if errors.As(err, &answered) {
		e.RequestID = answered.Request
		switch {
		case answered.Status == statusUnauthorized:
			e.Hint = "set Config.Token to the cloud's Options.Token"
		case answered.RetryAfter > 0:
			e.Hint = fmt.Sprintf("try again in %v", answered.RetryAfter)
		}
	}
	return e
}

// kindOf maps what the API says to the kinds of gputrain.
func kindOf(err error) error {
	var e *apiError
	switch {
	case errors.Is(err, errLost), errors.Is(err, errRefused), errors.Is(err, errGarbage), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return gputrain.ErrUnavailable
	case !errors.As(err, &e):
		return nil
	case e.Code == codeCapacity:
		return gputrain.ErrNoCapacity
	case e.Code == codeQuota:
		return gputrain.ErrQuota
	case e.Status == statusUnauthorized:
		return gputrain.ErrAuth
	case e.Status == statusNotFound:
		return gputrain.ErrNotFound
	case e.Status == statusRateLimited:
		return gputrain.ErrRateLimited
	case e.Status == statusInvalid:
		return gputrain.ErrInvalid
	case e.Status >= statusInternal:
		return gputrain.ErrUnavailable
	}
	return nil
}
