package inventory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/joined"
	"github.com/gputrain/gputrain/providers/driver"
)

// leaveTimeout bounds the tidying up of adopted machines.
const leaveTimeout = 30 * time.Second

// A Guest is the part of a pool on an adopted machine, which goes on without the pool.
type Guest struct {
	Provider string
	ID, Name string // of the machine
	// Leave ends the guest.
	Leave func(ctx context.Context) error
}

// Leave ends what a pool runs on machines that go on without it, on all at once. The error
// names those on which that was not possible: their lease ends later what is left there.
func Leave(ctx context.Context, guests []Guest, lease time.Duration) error {
	ctx, stop := context.WithTimeout(ctx, leaveTimeout)
	defer stop()
	errs := make([]error, len(guests))
	var all sync.WaitGroup
	for i, g := range guests {
		all.Go(func() { errs[i] = g.Leave(ctx) })
	}
	all.Wait()
	var left LeakError
	var why []error
	for i, g := range guests {
		if errs[i] != nil {
			why = append(why, errs[i])
			left.Resources = append(left.Resources, driver.Resource{
				Provider: g.Provider, Kind: "files and processes of the pool on", ID: g.ID, Name: g.Name, HourlyUSD: driver.USD(0),
			})
		}
	}
	if why == nil {
		return nil
	}
	left.Err = fmt.Errorf("%w; the node's lease of %v ends them", joined.Once(why), lease)
	return &left
}
