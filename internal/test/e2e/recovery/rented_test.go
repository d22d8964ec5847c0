package recovery

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/local"
)

// A market is a cloud whose machines are reached by TCP. They run on this computer, and are reported with any address
// and capabilities that a test sets.
type market struct {
	t      *testing.T
	host   string                          // in the reported address of every machine
	edit   func(caps *driver.Capabilities) // nil leaves them unchanged
	change func(in *driver.Instance)       // nil leaves machines unchanged

	listener net.Listener

	mu       sync.Mutex
	driver   driver.Driver
	last     driver.Instance // the last machine that was launched
	key      string          // its public host key
	launched int
	ended    int
	came     int // connections so far
}

func newMarket(t *testing.T, host string) *market {
	m := &market{t: t, host: host}
	var err error
	if m.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { m.serve(&serving) })
	t.Cleanup(func() {
		m.listener.Close()
		serving.Wait()
	})
	return m
}

func (m *market) serve(serving *sync.WaitGroup) {
	for {
		nc, err := m.listener.Accept()
		if err != nil {
			return
		}
		m.mu.Lock()
		m.came++
		d, in := m.driver, m.last
		m.mu.Unlock()
		serving.Go(func() {
			defer nc.Close()
			there, err := d.(driver.Dialer).Dial(context.Background(), in)
			if err != nil {
				return
			}
			defer there.Close()
			serving.Go(func() {
				io.Copy(there, nc)
				there.Close()
			})
			io.Copy(nc, there)
		})
	}
}

func (m *market) Name() string { return "market" }

func (m *market) Open(ctx context.Context) (driver.Driver, error) {
	d, err := local.Config{}.Open(ctx)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.driver = d
	return &marketDriver{d, m}, nil
}

type marketDriver struct {
	driver.Driver
	m *market
}

func (d *marketDriver) Capabilities() driver.Capabilities {
	caps := d.Driver.Capabilities()
	if d.m.edit != nil {
		d.m.edit(&caps)
	}
	return caps
}

func (d *marketDriver) edit(got []driver.Instance) []driver.Instance {
	for i := range got {
		if got[i].SSH.Addr != "" {
			_, port, _ := net.SplitHostPort(d.m.listener.Addr().String())
			got[i].SSH.Addr = net.JoinHostPort(d.m.host, port)
		}
		if d.m.change != nil {
			d.m.change(&got[i])
		}
	}
	return got
}

// Launch creates a host key for each machine that does not get one.
func (d *marketDriver) Launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	for i := range req.Nodes {
		if req.Nodes[i].HostKey.Public == "" {
			keys, err := ssh.NewKeyPair()
			if err != nil {
				return nil, err
			}
			req.Nodes[i].HostKey = driver.HostKey{Private: gputrain.Secret(keys.Private), Public: keys.Public}
		}
	}
	got, err := d.Driver.Launch(ctx, req)
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	d.m.launched += len(got)
	if len(got) > 0 {
		d.m.last, d.m.key = got[0], req.Nodes[0].HostKey.Public
	}
	return d.edit(got), err
}

func (d *marketDriver) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	got, err := d.Driver.Describe(ctx, ids...)
	return d.edit(got), err
}

func (d *marketDriver) Resume(ctx context.Context, pool driver.PoolInfo, ids ...string) error {
	return d.Driver.(driver.Resumer).Resume(ctx, pool, ids...)
}

func (d *marketDriver) Terminate(ctx context.Context, ids ...string) error {
	err := d.Driver.Terminate(ctx, ids...)
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if err == nil {
		d.m.ended += len(ids)
	}
	return err
}

// If a cloud reports a machine at an address of this computer, no connection is made. The machine is ended, and another
// one is rented.
func TestRentedMachineIsNotAtALocalAddress(t *testing.T) {
	hosts := []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1", "0.0.0.0", "2130706433", "0177.0.0.1", "64:ff9b::127.0.0.1"}
	found, _ := net.InterfaceAddrs()
	for _, a := range found { // another address of this computer
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			hosts = append(hosts, n.IP.String())
			break
		}
	}
	for _, host := range hosts {
		t.Run(host, func(t *testing.T) {
			m := newMarket(t, host)
			pool, err := gputrain.Open(t.Context(), m, gputrain.Spec{MaxReplacements: 1})
			if err == nil {
				pool.Close()
				t.Fatal("a machine at an address of this computer is a node")
			}
			if !errors.Is(err, gputrain.ErrUnavailable) {
				t.Errorf("%v is not ErrUnavailable", err)
			}
			for _, part := range []string{"market", m.last.ID, m.host, "an address of this computer", "given up"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not contain %q", err, part)
				}
			}
			if m.came != 0 || m.launched != 2 || m.ended < m.launched {
				t.Errorf("%d connections, %d machines launched, %d ended", m.came, m.launched, m.ended)
			}
		})
	}
}

// If the API itself is at a local address, its machines may be too.
func TestMachinesOfALocalCloud(t *testing.T) {
	m := newMarket(t, "localhost")
	m.edit = func(caps *driver.Capabilities) { caps.LocalAddresses = true }
	pool, err := gputrain.Open(t.Context(), m, gputrain.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if m.came == 0 {
		t.Error("the machine was not reached by a connection of the test")
	}
}
