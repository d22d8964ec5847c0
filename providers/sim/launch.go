package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
)

// Launch asks once. If the answer does not say whether machines were made, it asks again
// with the same token; a cloud without tokens is never asked for them twice. What is still
// open then it looks for by their names.
func (d *driver) Launch(ctx context.Context, req gputrain.LaunchRequest) ([]gputrain.Instance, error) {
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

func (d *driver) launchOnce(ctx context.Context, r request) ([]gputrain.Instance, error) {
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

const (
	repeats     = 4
	repeatPause = 500 * time.Millisecond
)

// repeat asks again with the token that the first call had. That the last answer was an error
// does not hide that an earlier call had none.
func (d *driver) repeat(ctx context.Context, r request, err error) ([]gputrain.Instance, error) {
	pause, last := repeatPause, err
	for range repeats {
		wait := pause
		if e := (*apiError)(nil); errors.As(last, &e) {
			wait = max(wait, e.RetryAfter)
		}
		if !sleep(ctx, wait) {
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

// settleLimit bounds how long machines are looked for, beyond the time that lists lag.
const settleLimit = time.Minute

// settle looks for machines that a call may have made, until all are there or could no
// longer be missing.
func (d *driver) settle(ctx context.Context, r request, err error, lag time.Duration) ([]gputrain.Instance, error) {
	start := time.Now()
	var names []string
	for _, n := range r.Nodes {
		names = append(names, n.Name)
	}
	r.Pool.Settling(fmt.Errorf("%s may have been made: %w", strings.Join(names, ", "), err), start.Add(lag))
	for pause := repeatPause; ; pause = min(2*pause, 5*time.Second) {
		asked := time.Now()
		found, listErr := d.named(ctx, r)
		switch {
		case listErr == nil && len(found) == len(r.Nodes):
			return found, nil
		case listErr == nil && asked.Sub(start) >= lag:
			if len(found) > 0 {
				return found, unsettled(err)
			}
			return nil, unsettled(fmt.Errorf("%w; nothing was made", err))
		case asked.Sub(start) > lag+settleLimit || !sleep(ctx, pause):
			return found, unsettled(errors.Join(err, listErr))
		}
	}
}

// named returns one machine for each name that was asked for and is listed.
func (d *driver) named(ctx context.Context, r request) ([]gputrain.Instance, error) {
	a, err := d.call(ctx, request{Op: OpList, Pool: gputrain.PoolInfo{ID: r.Pool.ID}})
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

// unsettled is the error of a launch of which it is not known whether it has made
// machines: the pool finds those by List.
func unsettled(err error) error {
	return &gputrain.Error{Provider: name, Op: "launch", Kind: gputrain.ErrUnavailable, Err: err,
		Hint: "machines may have been made all the same: List has them"}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// quote makes one word of s for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
