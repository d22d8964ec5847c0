package gputrain_test

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/providers/sim"
)

// The air is what is between a program and its nodes. While it is still, nothing
// passes, and neither side is told: what was sent arrives later.
type air struct {
	mu     sync.Mutex
	passes chan struct{} // closed unless it is still
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

// now returns what is closed unless the air is still.
func (a *air) now() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.passes
}

// wait returns when the air is not still.
func (a *air) wait(ctx context.Context) error {
	select {
	case <-a.now():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// carry takes to one connection what comes from another, and its end.
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

// throughAir is a cloud whose machines are reached through the air.
type throughAir struct {
	sim.Config
	air *air
}

func (p throughAir) Open(ctx context.Context) (gputrain.Driver, error) {
	d, err := p.Config.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &airDriver{d, d.(gputrain.SelfDestructor), d.(gputrain.LeaseMarker), p.air}, nil
}

type airDriver struct {
	gputrain.Driver
	gputrain.SelfDestructor
	gputrain.LeaseMarker
	air *air
}

// Prepare is a call whose connection does not outlive that nothing passes.
func (d *airDriver) Prepare(ctx context.Context, pool gputrain.PoolInfo) error {
	select {
	case <-d.air.now():
		return d.Driver.Prepare(ctx, pool)
	default:
	}
	err := d.air.wait(ctx)
	return &gputrain.Error{Provider: "sim", Op: "prepare", Kind: gputrain.ErrUnavailable, Err: cmp.Or(err, errors.New("connection reset by peer"))}
}

func (d *airDriver) Dial(ctx context.Context, in gputrain.Instance) (net.Conn, error) {
	if err := d.air.wait(ctx); err != nil {
		return nil, err
	}
	far, err := d.Driver.(gputrain.Dialer).Dial(ctx, in)
	if err != nil {
		return nil, err
	}
	near, mast := sshd.Pipe()
	go d.air.carry(far, mast)
	go d.air.carry(mast, far)
	return near, nil
}
