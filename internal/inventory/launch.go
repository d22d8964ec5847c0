package inventory

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// Launched is the result of a launch.
type Launched struct {
	// Machines are the existing machines, by name.
	Machines map[string]driver.Instance
	// Answer is the error of the driver's answer, even if machines came with it.
	Answer error
}

// Launch asks the driver to make machines, all by one call, and finds out what an unclear answer has made. It calls
// answered after the driver has answered. The error is the reason for missing machines. Launch itself sets the
// request's Pool and Token.
func (inv *Inventory) Launch(ctx context.Context, req driver.Launch, answered func()) (Launched, error) {
	var looked search
	req.Pool, req.Token = inv.Info().WithSettling(looked.by(inv.report)), strings.ToLower(rand.Text())
	if err := inv.launcher.intend(req); err != nil {
		return Launched{}, err
	}
	got, err := inv.callLaunch(ctx, req)
	answer := err
	answered()
	inv.launcher.adopt(got)
	byName := map[string]driver.Instance{}
	for _, inst := range got {
		byName[inst.Name] = inst
	}
	var missing []string
	for _, n := range req.Nodes {
		if _, ok := byName[n.Name]; !ok {
			missing = append(missing, n.Name)
		}
	}
	if len(missing) > 0 {
		found, settleErr := inv.launcher.settle(ctx, missing, looked.end(inv.account.Caps.ListLag), err)
		for _, inst := range found {
			byName[inst.Name] = inst
		}
		err = errors.Join(err, settleErr)
	}
	return Launched{byName, answer}, err
}

// callLaunch makes the driver's launch. If the driver could not make what the machines share, which a
// [market.PrepareError] reports, nothing was launched, and it may try again. If a baked image was deleted after the offers
// were asked for, the machines start from the usual one.
func (inv *Inventory) callLaunch(ctx context.Context, req driver.Launch) (got []driver.Instance, err error) {
	got, err = tryLaunch(ctx, inv, req)
	if req.Offer.Baked == "" || len(got) > 0 || !errors.Is(err, driver.ErrNotFound) {
		return got, err
	}
	inv.report.Trouble("image", err)
	req.Offer.Baked, req.Token = "", strings.ToLower(rand.Text())
	return tryLaunch(ctx, inv, req)
}

func tryLaunch(ctx context.Context, inv *Inventory, req driver.Launch) (got []driver.Instance, err error) {
	unprepared := retry.Call(ctx, func() error {
		got, err = inv.account.Driver.Launch(ctx, req)
		inv.called(err)
		if _, ok := errors.AsType[*market.PrepareError](err); ok {
			return err
		}
		return nil
	})
	return got, cmp.Or(unprepared, err)
}

// A search records until when a driver looks for the result of an unanswered launch.
type search struct {
	mu    sync.Mutex
	until time.Time // the latest; zero if there was no search. Guarded by mu
}

// by returns the function that a driver calls when it begins to look.
func (s *search) by(report Reporter) func(why error, until time.Time) {
	return func(why error, until time.Time) {
		s.mu.Lock()
		latest(&s.until, until)
		s.mu.Unlock()
		report.Settling(why, until)
	}
}

// end returns when a list has whatever the launch has made, which is over: the lag of lists
// is waited for once, by the driver or after it.
func (s *search) end(lag time.Duration) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.until, time.Now().Add(lag))
}

func latest(to *time.Time, t time.Time) {
	if t.After(*to) {
		*to = t
	}
}
