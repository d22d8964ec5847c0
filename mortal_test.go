package gputrain_test

import (
	"bytes"
	"context"
	"iter"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gputrain/gputrain"
)

// A mortal makes providers for a program that dies in the middle of this one: from
// some call on nothing that it asks for reaches the cloud, and its connections are
// cut. What it had on disk at that moment is copied, for those that come after it,
// to whom the copy's locks are those of a dead process.
type mortal struct {
	state string // its state directory,
	grave string // and where its copy goes
	owner string // in place of this program, where that is not empty

	// gone is closed when it is dead, buried when its state is copied: what it does
	// after gone nobody sees, and it is told of nothing before buried.
	gone, buried chan struct{}

	mu      sync.Mutex
	calls   int
	dieAt   int  // the call that is its last; 0 for none
	making  bool // only calls that make something count
	after   bool // the call's effect
	dead    bool
	tear    int // bytes of the ledger's last line that are not on disk yet
	copyErr error
	conns   map[net.Conn]bool
	life    context.Context
	end     context.CancelFunc
}

var errDead = &gputrain.Error{Provider: "sim", Op: "anything", Kind: gputrain.ErrUnavailable}

func newMortal(state, grave string) *mortal {
	m := &mortal{state: state, grave: grave, gone: make(chan struct{}), buried: make(chan struct{}), conns: map[net.Conn]bool{}}
	m.life, m.end = context.WithCancel(context.Background())
	return m
}

// dieWithin has it die in its nth call from now on.
func (m *mortal) dieWithin(n int, after bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dieAt, m.after = m.calls+n, after
}

// die kills it, once. launching names a machine that it was about to launch: that
// may not be on disk yet.
func (m *mortal) die(launching string) {
	m.mu.Lock()
	if m.dead {
		m.mu.Unlock()
		return
	}
	m.dead = true
	close(m.gone)
	for nc := range m.conns {
		nc.Close()
	}
	m.mu.Unlock()
	m.end()
	err := bury(m.state, m.grave, launching, m.tear)
	m.mu.Lock()
	m.copyErr = err
	m.mu.Unlock()
	close(m.buried)
}

// bury copies a state directory as a kill leaves it.
func bury(from, to, launching string, tear int) error {
	pools := filepath.Join(from, "pools")
	entries, err := os.ReadDir(pools)
	if os.IsNotExist(err) {
		return nil // it died before it had one
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(to, "pools"), 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(pools, e.Name()))
		if os.IsNotExist(err) {
			continue // removed just now
		}
		if err != nil {
			return err
		}
		if last := bytes.LastIndex(b, []byte(`{"is":"row"`)); launching != "" && last > 0 {
			line := b[last:]
			if bytes.Contains(line, []byte(`"name":"`+launching+`"`)) && bytes.Contains(line, []byte(`"state":"intended"`)) {
				b = b[:len(b)-min(tear, len(line))]
			}
		}
		if err := os.WriteFile(filepath.Join(to, "pools", e.Name()), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// making is what a call makes: a machine, by its name, or nothing.
type making string

const (
	nothing    making = "nothing"
	groundwork making = ""
)

// call is one call to the cloud.
func (m *mortal) call(ctx context.Context, makes making, do func(context.Context)) error {
	m.mu.Lock()
	dead := m.dead
	counts := !dead && (makes != nothing || !m.making)
	if counts {
		m.calls++
	}
	dies := counts && m.calls == m.dieAt
	before := dies && !m.after
	m.mu.Unlock()
	if before {
		m.die(string(makes))
	}
	if dead || before {
		<-m.buried
		return errDead
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(m.life, stop)()
	do(ctx)
	if dies {
		m.die("")
	}
	m.mu.Lock()
	dead = m.dead
	m.mu.Unlock()
	if dead {
		<-m.buried
		return errDead
	}
	return nil
}

// A mortalMember is a provider, some of its offers, for a program that dies, or for one
// that does not where there is none.
type mortalMember struct {
	m *mortal
	gputrain.Provider
	has func(gputrain.Offer) bool
}

func (p mortalMember) Open(ctx context.Context) (d gputrain.Driver, err error) {
	if p.m == nil {
		return p.Provider.Open(ctx)
	}
	if e := p.m.call(ctx, nothing, func(ctx context.Context) { d, err = p.Provider.Open(ctx) }); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	return &mortalDriver{d, p.m, p.has}, nil
}

type mortalDriver struct {
	gputrain.Driver
	m   *mortal
	has func(gputrain.Offer) bool
}

func (d *mortalDriver) owned(info gputrain.PoolInfo) gputrain.PoolInfo {
	if d.m.owner != "" {
		info.Owner = d.m.owner
	}
	return info
}

func (d *mortalDriver) Offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		var all []gputrain.Offer
		var err error
		e := d.m.call(ctx, nothing, func(ctx context.Context) {
			for o, failed := range d.Driver.Offers(ctx, spec) {
				if err = failed; err == nil && d.has(o) {
					all = append(all, o)
				}
			}
		})
		if e != nil {
			err = e
		}
		if err != nil {
			yield(gputrain.Offer{}, err)
			return
		}
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (d *mortalDriver) Prepare(ctx context.Context, info gputrain.PoolInfo) (err error) {
	if e := d.m.call(ctx, groundwork, func(ctx context.Context) { err = d.Driver.Prepare(ctx, d.owned(info)) }); e != nil {
		return e
	}
	return err
}

func (d *mortalDriver) Launch(ctx context.Context, req gputrain.LaunchRequest) (got []gputrain.Instance, err error) {
	req.Pool = d.owned(req.Pool)
	if e := d.m.call(ctx, making(req.Nodes[len(req.Nodes)-1].Name), func(ctx context.Context) { got, err = d.Driver.Launch(ctx, req) }); e != nil {
		return nil, e
	}
	return got, err
}

func (d *mortalDriver) Describe(ctx context.Context, ids ...string) (found []gputrain.Instance, err error) {
	if e := d.m.call(ctx, nothing, func(ctx context.Context) { found, err = d.Driver.Describe(ctx, ids...) }); e != nil {
		return nil, e
	}
	return found, err
}

func (d *mortalDriver) List(ctx context.Context, pool string) (found []gputrain.Resource, err error) {
	if e := d.m.call(ctx, nothing, func(ctx context.Context) { found, err = d.Driver.List(ctx, pool) }); e != nil {
		return nil, e
	}
	return found, err
}

func (d *mortalDriver) Terminate(ctx context.Context, ids ...string) (err error) {
	if e := d.m.call(ctx, nothing, func(ctx context.Context) { err = d.Driver.Terminate(ctx, ids...) }); e != nil {
		return e
	}
	return err
}

func (d *mortalDriver) Release(ctx context.Context, info gputrain.PoolInfo) (err error) {
	if e := d.m.call(ctx, nothing, func(ctx context.Context) { err = d.Driver.Release(ctx, d.owned(info)) }); e != nil {
		return e
	}
	return err
}

func (d *mortalDriver) MarkLease(ctx context.Context, info gputrain.PoolInfo, until time.Time, ids ...string) (err error) {
	e := d.m.call(ctx, nothing, func(ctx context.Context) {
		err = d.Driver.(gputrain.LeaseMarker).MarkLease(ctx, d.owned(info), until, ids...)
	})
	if e != nil {
		return e
	}
	return err
}

func (d *mortalDriver) SelfDestruct(in gputrain.Instance) string {
	return d.Driver.(gputrain.SelfDestructor).SelfDestruct(in)
}

// Dial is no call to the cloud. Its connections end with the program.
func (d *mortalDriver) Dial(ctx context.Context, in gputrain.Instance) (net.Conn, error) {
	nc, err := d.Driver.(gputrain.Dialer).Dial(ctx, in)
	if err != nil {
		return nil, err
	}
	m := d.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		nc.Close()
		return nil, errDead
	}
	c := &mortalConn{nc, m}
	m.conns[c] = true
	return c, nil
}

type mortalConn struct {
	net.Conn
	m *mortal
}

func (c *mortalConn) Close() error {
	err := c.Conn.Close()
	go func() { // die holds mu
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		delete(c.m.conns, c)
	}()
	return err
}
