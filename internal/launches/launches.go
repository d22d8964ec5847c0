// Package launches is what drivers share whose cloud launches one machine by a call.
package launches

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Each calls launch for every node, so many at once, and returns all that was made
// beside all that went wrong. An error is open where it leaves open whether something was
// made. One that is not is a refusal, and what is refused to one node is refused to all:
// those that have not begun are left out. The errors are joined by Join.
func Each[N, M any](nodes []N, atOnce int, launch func(N) ([]M, error), open func(error) bool) ([]M, error) {
	var (
		mu      sync.Mutex
		made    []M
		errs    []error
		refused bool
	)
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, n := range nodes {
		g.Go(func() error {
			mu.Lock()
			skip := refused
			mu.Unlock()
			if skip {
				return nil
			}
			got, err := launch(n)
			mu.Lock()
			defer mu.Unlock()
			made = append(made, got...)
			if err != nil {
				errs = append(errs, err)
				refused = refused || !open(err)
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs, all of them
	return made, Join(open, errs...)
}

// Join joins the errors of several launches. Where one is open the others lose their
// kinds, which would say of all of them that nothing was made.
func Join(open func(error) bool, errs ...error) error {
	if slices.ContainsFunc(errs, open) {
		for i, err := range errs {
			if err != nil && !open(err) {
				errs[i] = errors.New(err.Error())
			}
		}
	}
	return errors.Join(errs...)
}

// Pause waits, and reports whether ctx allows more.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
