package plans

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
	"github.com/gputrain/gputrain/providers/driver"
)

// A mortal makes providers for a simulated program that dies within this one: from some call on, none of its requests
// reaches the cloud, and its connections are cut. Its state directory at that moment is copied for later programs,
// which see the locks of the copy as those of a dead process.
type mortal struct {
	state string // the program's state directory
	grave string // where the copy of the state directory goes
	owner string // the owner that the cloud records, unless empty

	// gone is closed when the program is dead, and buried when its state is copied. Actions after gone have no effect,
	// and calls return only after buried.
	gone, buried chan struct{}

	mu      sync.Mutex
	calls   int
	dieAt   int  // the number of the program's last call; 0 means none
	making  bool // only calls that create something count
	after   bool // the program dies after the call's effect, not before
	dead    bool
	tear    int // bytes of the ledger's last line that are not yet on disk
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

// dieWithin makes the program die in its nth call from now on.
func (m *mortal) dieWithin(n int, after bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dieAt, m.after = m.calls+n, after
}

// die kills the program, once. launching names a machine that it was about to launch, whose ledger entry may not be on
// disk yet.
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

// bury copies a state directory as a kill would leave it.
func bury(from, to, launching string, tear int) error {
	pools := filepath.Join(from, "pools")
	entries, err := os.ReadDir(pools)
	if os.IsNotExist(err) {
		return nil // the program died before it created a state directory
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
			continue // the file was just removed
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

// making says what a call creates: a machine, by its name, or nothing.
type making string

const (
	nothing    making = "nothing"
	groundwork making = ""
)

// call makes one call to the cloud, unless the program is dead or dies in it.
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

// A mortalMember is a provider with some of its offers, for a program that dies. Without an m the program lives.
type mortalMember struct {
	m *mortal
	gputrain.Provider
	has func(gputrain.Offer) bool
}

func (p mortalMember) Open(ctx context.Context) (d driver.Driver, err error) {
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
	driver.Driver
	m   *mortal
	has func(gputrain.Offer) bool
}

func (d *mortalDriver) owned(info driver.PoolInfo) driver.PoolInfo {
	if d.m.owner != "" {
		info.Owner = d.m.owner
	}
	return info
}

func (d *mortalDriver) Offers(ctx context.Context, spec driver.Query) iter.Seq2[gputrain.Offer, error] {
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

func (d *mortalDriver) Prepare(ctx context.Context, info driver.PoolInfo) (err error) {
	if e := d.m.call(ctx, groundwork, func(ctx context.Context) { err = d.Driver.Prepare(ctx, d.owned(info)) }); e != nil {
		return e
	}
	return err
}

func (d *mortalDriver) Launch(ctx context.Context, req driver.Launch) (got []driver.Instance, err error) {
	req.Pool = d.owned(req.Pool)
	if e := d.m.call(ctx, making(req.Nodes[len(req.Nodes)-1].Name), func(ctx context.Context) { got, err = d.Driver.Launch(ctx, req) }); e != nil {
		return nil, e
	}
	return got, err
}

func (d *mortalDriver) Describe(ctx context.Context, ids ...string) (found []driver.Instance, err error) {
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

func (d *mortalDriver) Release(ctx context.Context, info driver.PoolInfo) (err error) {
	if e := d.m.call(ctx, nothing, func(ctx context.Context) { err = d.Driver.Release(ctx, d.owned(info)) }); e != nil {
		return e
	}
	return err
}

func (d *mortalDriver) MarkLease(ctx context.Context, info driver.PoolInfo, until time.Time, ids ...string) (err error) {
	e := d.m.call(ctx, nothing, func(ctx context.Context) {
		err = d.Driver.(driver.LeaseMarker).MarkLease(ctx, d.owned(info), until, ids...)
	})
	if e != nil {
		return e
	}
	return err
}

func (d *mortalDriver) Scripts(in driver.Instance) driver.Scripts {
	return d.Driver.(driver.Scripter).Scripts(in)
}

// Dial does not count as a call to the cloud. Its connections end with the program.
func (d *mortalDriver) Dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	nc, err := d.Driver.(driver.Dialer).Dial(ctx, in)
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
	go func() { // in a goroutine, as die holds mu
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		delete(c.m.conns, c)
	}()
	return err
}
