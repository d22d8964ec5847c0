package sim

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Launch asks once. If the answer leaves open whether machines were made, it asks again with
// the same token; it never asks twice a cloud without tokens. It then looks for the remaining
// nodes by their names.
func (d *simDriver) Launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	r := request{Op: OpLaunch, Pool: req.Pool, Offer: req.Offer, Nodes: req.Nodes, Token: req.Token}
	got, err := d.launchOnce(ctx, r)
	if isAmbiguous(err) && len(got) == 0 {
		lag := d.account.ListLag + createLag
		if !d.account.NoTokens && req.Token != "" {
			got, err = d.repeat(ctx, r, err)
			lag = d.account.ListLag
		}
		if isAmbiguous(err) && len(got) == 0 {
			got, err = d.settle(ctx, r, err, lag)
		}
	}
	d.mu.Lock()
	for _, in := range got {
		d.when[in.ID] = time.Now()
	}
	d.mu.Unlock()
	if err != nil {
		return got, fail("launch", err)
	}
	return got, nil
}

func (d *simDriver) launchOnce(ctx context.Context, r request) ([]driver.Instance, error) {
	a, err := d.call(ctx, r)
	var refused *apiError
	switch {
	case errors.As(err, &refused):
		return refused.Instances, err
	case err == nil && a.Instances == nil:
		return nil, errGarbage
	}
	return a.Instances, err
}

// isAmbiguous reports whether an error leaves open what was done.
func isAmbiguous(err error) bool {
	var e *apiError
	return err != nil && (!errors.As(err, &e) || e.Status >= statusInternal)
}

// A call with a token is repeated so often, after repeatPause and then twice as long each time.
const repeats = 4

var repeatPause = 500 * time.Millisecond // tests change it

// repeat asks again with the token of the first call. If an earlier call had no answer, an
// error as the last answer does not settle it.
func (d *simDriver) repeat(ctx context.Context, r request, err error) ([]driver.Instance, error) {
	pause, last := repeatPause, err
	for range repeats {
		wait := pause
		if e := (*apiError)(nil); errors.As(last, &e) {
			wait = max(wait, e.RetryAfter)
		}
		if !retry.Sleep(ctx, wait) {
			break
		}
		pause *= 2
		got, again := d.launchOnce(ctx, r)
		var e *apiError
		limited := errors.As(again, &e) && e.Status == statusRateLimited
		if len(got) > 0 || !limited && !isAmbiguous(again) {
			return got, again
		}
		if last = again; !limited && errors.As(err, &e) {
			err = again
		}
	}
	return nil, err
}

// settlePause is the time between two looks at a cloud's lists.
const settlePause = time.Second

// settle looks for the machines of a launch whose answer was lost. It returns those that it
// finds together with the error.
func (d *simDriver) settle(ctx context.Context, r request, why error, lag time.Duration) ([]driver.Instance, error) {
	var names []string
	for _, n := range r.Nodes {
		names = append(names, n.Name)
	}
	var found []driver.Instance
	_, err := cloud.Search[[]driver.Instance]{
		Pool: r.Pool, Name: strings.Join(names, ", "), Why: why, Lag: lag, Pause: settlePause,
		Find: func(ctx context.Context) ([]driver.Instance, bool, error) {
			listed, err := d.named(ctx, r)
			if err == nil {
				found = listed
			}
			return listed, err == nil && len(listed) == len(r.Nodes), err
		},
	}.Settle(ctx)
	return found, cmp.Or(err, context.Cause(ctx))
}

// named returns one machine for each requested name that is listed.
func (d *simDriver) named(ctx context.Context, r request) ([]driver.Instance, error) {
	a, err := d.call(ctx, request{Op: OpList, Pool: driver.PoolInfo{ID: r.Pool.ID}})
	if err == nil && a.Resources == nil {
		err = errGarbage
	}
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, n := range r.Nodes {
		for _, res := range a.Resources {
			if res.Kind == "machine" && res.Name == n.Name {
				ids = append(ids, res.ID)
				break
			}
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	b, err := d.call(ctx, request{Op: OpDescribe, IDs: ids})
	if err == nil && len(b.Instances) != len(ids) {
		err = errGarbage
	}
	return b.Instances, err
}
