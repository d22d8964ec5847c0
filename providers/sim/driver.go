package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A simDriver rents the machines of one pool, like a real cloud's driver: it knows only what
// calls answer.
type simDriver struct {
	cloud   *Cloud // nil if another program serves it
	send    func(context.Context, request) (answer, error)
	base    request //secretvet:ignore what all requests begin with, which has no nodes
	account account
	local   bool // that program's address, or its link's, is on this computer
	done    func()

	mu     sync.Mutex
	opened time.Time
	when   map[string]time.Time // when launches returned the machines
	ended  map[string]bool      // machines that this driver has terminated
}

// A dialer is a driver whose cloud is in this program. It connects to the machines in memory.
type dialer struct{ *simDriver }

var (
	_ driver.Provider    = driver.RegisterConfig(Config{})
	_ driver.Driver      = (*simDriver)(nil)
	_ driver.Scripter    = (*simDriver)(nil)
	_ driver.LeaseMarker = (*simDriver)(nil)
	_ driver.Dialer      = (*dialer)(nil)
)

func (d *dialer) Dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	nc, err := d.cloud.fleet.dial(in.ID)
	if err != nil {
		return nil, fail("dial", err)
	}
	return nc, nil
}

func (d *simDriver) call(ctx context.Context, r request) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	r.Client, r.Account = d.base.Client, d.base.Account
	return d.send(ctx, r)
}

func (d *simDriver) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Account:          d.account.Name,
		ListLag:          d.account.ListLag,
		LateEffect:       time.Minute,
		Spot:             true,
		PreemptionNotice: d.account.PreemptionNotice,
		EndsBilling:      "terminate",
		PrivateNetwork:   true,
		Ports:            driver.PortsOfPool,
		Tags:             true,
		UserTags:         true,
		LocalAddresses:   d.local,
		EndsWithProgram:  d.cloud != nil,
		HostKeys:         driver.HostKeyInjected,
		Images:           &driver.Images{Logins: true}, // its machines run Go functions, whatever the image
		ProvisionTimeout: d.account.ProvisionTimeout,
	}
}

func (d *simDriver) Offers(ctx context.Context, _ driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		a, err := d.call(ctx, request{Op: OpOffers})
		if err == nil && a.Offers == nil {
			err = errGarbage
		}
		if err != nil {
			yield(driver.Offer{}, fail("offers", err))
			return
		}
		for _, o := range a.Offers {
			if !yield(o, nil) {
				return
			}
		}
	}
}

// Balance returns the account's money, if the cloud tells.
func (d *simDriver) Balance(ctx context.Context, _ driver.Offer) (driver.Balance, error) {
	a, err := d.tell(ctx)
	if a.Balance == nil {
		return driver.Balance{}, err
	}
	return *a.Balance, err
}

// Quota returns how many machines the account may still have, if the cloud tells.
func (d *simDriver) Quota(ctx context.Context, _ driver.Offer) (driver.Quota, error) {
	a, err := d.tell(ctx)
	if a.Quota == nil {
		return driver.Quota{}, err
	}
	return *a.Quota, err
}

func (d *simDriver) tell(ctx context.Context) (answer, error) {
	if !d.account.TellsAccount {
		return answer{}, nil
	}
	a, err := d.call(ctx, request{Op: OpAccount})
	if err == nil && (a.Balance == nil || a.Quota == nil) {
		err = errGarbage
	}
	if err != nil {
		return answer{}, fail("account", err)
	}
	return a, nil
}

// sharedKinds are the things that Prepare makes. The network is removed first.
var sharedKinds = []string{"network", "key"}

func (d *simDriver) Prepare(ctx context.Context, pool driver.PoolInfo) error {
	for _, kind := range sharedKinds {
		r := driver.Resource{Kind: kind, Name: pool.ID, HourlyUSD: driver.USD(0)}
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

func (d *simDriver) Release(ctx context.Context, pool driver.PoolInfo) error {
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

// do makes a call that needs no result.
func (d *simDriver) do(ctx context.Context, r request) error {
	a, err := d.call(ctx, r)
	if err == nil && !a.Done {
		err = errGarbage
	}
	return err
}

// createLag bounds the time for which describe may not know a new machine. Until then a missing
// machine does not count as gone.
const createLag = 15 * time.Second

func (d *simDriver) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	a, err := d.call(ctx, request{Op: OpDescribe, IDs: ids})
	if err == nil && a.Instances == nil {
		err = errGarbage
	}
	if err != nil {
		return nil, fail("describe", err)
	}
	byID := map[string]driver.Instance{}
	for _, in := range a.Instances {
		byID[in.ID] = in
	}
	var found []driver.Instance
	for _, id := range ids {
		in, ok := byID[id]
		if !ok {
			in = d.missing(id)
		}
		found = append(found, in)
	}
	return found, nil
}

// missing describes a machine that the cloud does not know: terminated, unless it is younger
// than createLag.
func (d *simDriver) missing(id string) driver.Instance {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := driver.Instance{ID: id, State: driver.InstanceTerminated, StateReason: "the cloud does not know it"}
	since, known := d.when[id]
	if !known {
		since = d.opened
	}
	if d.ended[id] || time.Since(since) >= max(createLag, d.account.ListLag) {
		return in
	}
	in.State, in.StateReason = driver.InstanceUnknown, "the cloud does not know it, or not yet"
	if known {
		in.State = driver.InstancePending
	}
	return in
}

func (d *simDriver) List(ctx context.Context, poolID string) ([]driver.Resource, error) {
	a, err := d.call(ctx, request{Op: OpList, Pool: driver.PoolInfo{ID: poolID}})
	if err == nil && a.Resources == nil {
		err = errGarbage
	}
	if err != nil {
		return nil, fail("list", err)
	}
	return a.Resources, nil
}

func (d *simDriver) Terminate(ctx context.Context, ids ...string) error {
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

// MarkLease records on the machines until when the lease runs.
func (d *simDriver) MarkLease(ctx context.Context, pool driver.PoolInfo, until time.Time, ids ...string) error {
	if err := d.do(ctx, request{Op: OpMarkLease, Pool: pool, IDs: ids, Until: until}); err != nil {
		return fail("mark the lease", err)
	}
	return nil
}

// Scripts returns a command that ends the machine's processes and removes its home. The cloud
// takes that for the machine's end.
func (d *simDriver) Scripts(driver.Instance) driver.Scripts {
	if d.account.NoSelfDestruct {
		return driver.Scripts{}
	}
	return driver.Scripts{SelfDestruct: selfDestruct}
}

// Close closes the connections to a cloud in another program.
func (d *simDriver) Close() error {
	if d.done != nil {
		d.done()
	}
	return nil
}

// fail puts a failure into the form that callers see.
func fail(op string, err error) error {
	e, ok := errors.AsType[*driver.Error](err)
	switch {
	case !ok:
		e = &driver.Error{Kind: kindOf(err), Err: err}
	case e.Provider != "":
		return err
	}
	e.Provider, e.Op = name, op
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

// kindOf maps the API's statuses and codes to gputrain's kinds.
func kindOf(err error) error {
	var e *apiError
	switch {
	case errors.Is(err, errLost), errors.Is(err, errRefused), errors.Is(err, errGarbage), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return driver.ErrUnavailable
	case !errors.As(err, &e):
		return nil
	case e.Status == statusPayment:
		return driver.ErrBalance
	case e.Code == codeCapacity:
		return driver.ErrNoCapacity
	case e.Code == codeQuota:
		return driver.ErrQuota
	case e.Status == statusUnauthorized:
		return driver.ErrAuth
	case e.Status == statusNotFound:
		return driver.ErrNotFound
	case e.Status == statusRateLimited:
		return driver.ErrRateLimited
	case e.Status == statusInvalid:
		return driver.ErrInvalid
	case e.Status >= statusInternal:
		return driver.ErrUnavailable
	}
	return nil
}
