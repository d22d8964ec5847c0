// Package launches has helpers for drivers of clouds that launch one machine per call.
package launches

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Each calls launch for every node, atOnce at a time, and returns everything that was made along
// with all errors, joined by Join. An error is open if a machine may have been made in spite of it.
// Any other error is a refusal, which applies to all nodes: launches that have not begun are
// skipped.
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
	_ = g.Wait() // all errors are in errs
	return made, Join(open, errs...)
}

// Join joins the errors of several launches. If one of them is open, the others lose their kinds,
// which would mean that no launch has made anything. What several say in the same words is said once.
func Join(open func(error) bool, errs ...error) error {
	if slices.ContainsFunc(errs, open) {
		for i, err := range errs {
			if err != nil && !open(err) {
				errs[i] = errors.New(err.Error())
			}
		}
	}
	said := map[string]bool{}
	return errors.Join(slices.DeleteFunc(slices.Clone(errs), func(err error) bool {
		if err == nil {
			return true
		}
		key := fmt.Sprint(open(err), " ", err)
		again := said[key]
		said[key] = true
		return again
	})...)
}
