package faults

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// air is the network between a program and its nodes. While it is still, no data pass, and neither side notices: data
// that were sent arrive later.
type air struct {
	mu     sync.Mutex
	passes chan struct{} // closed unless the air is still
}

func newAir() *air {
	a := &air{passes: make(chan struct{})}
	close(a.passes)
	return a
}

func (a *air) still(still bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if still {
		a.passes = make(chan struct{})
	} else {
		close(a.passes)
	}
}

// now returns a channel that is closed unless the air is still.
func (a *air) now() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.passes
}

// wait returns once the air is not still, or when ctx ends.
func (a *air) wait(ctx context.Context) error {
	select {
	case <-a.now():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// carry copies data from one connection to another, and then closes both.
func (a *air) carry(to, from net.Conn) {
	defer to.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		a.wait(context.Background())
		if _, e := to.Write(b[:n]); err != nil || e != nil {
			from.Close()
			return
		}
	}
}

// throughAir is a cloud whose machines are reached through an air.
type throughAir struct {
	sim.Config
	air *air
}

func (p throughAir) Open(ctx context.Context) (driver.Driver, error) {
	d, err := p.Config.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &airDriver{d, d.(driver.Scripter), d.(driver.LeaseMarker), p.air}, nil
}

type airDriver struct {
	driver.Driver
	driver.Scripter
	driver.LeaseMarker
	air *air
}

// Prepare fails if the air is still: its connection does not survive that.
func (d *airDriver) Prepare(ctx context.Context, pool driver.PoolInfo) error {
	select {
	case <-d.air.now():
		return d.Driver.Prepare(ctx, pool)
	default:
	}
	err := d.air.wait(ctx)
	return &gputrain.Error{Provider: "sim", Op: "prepare", Kind: gputrain.ErrUnavailable, Err: cmp.Or(err, errors.New("connection reset by peer"))}
}

func (d *airDriver) Dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	if err := d.air.wait(ctx); err != nil {
		return nil, err
	}
	far, err := d.Driver.(driver.Dialer).Dial(ctx, in)
	if err != nil {
		return nil, err
	}
	near, mast := sshd.Pipe()
	go d.air.carry(far, mast)
	go d.air.carry(mast, far)
	return near, nil
}
