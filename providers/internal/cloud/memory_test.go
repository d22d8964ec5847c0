package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

var (
	errGone    = errors.New("there is no such machine")
	errSoldOut = errors.New("sold out")
	errLost    = errors.New("the answer is lost")
)

// memory is a cloud that is only a list.
type memory struct {
	mu       sync.Mutex
	caps     driver.Capabilities
	machines []cloud.Machine
	shared   []driver.Resource
	creates  int
	closed   bool

	create func(n int) (make bool, err error) // result of the nth create; nil means success
	hidden int                                // how many more reads return no machines
	err    error                              // error of every read and end
	shown  bool                               // reads show machines that an end does not find
}

func open(t *testing.T, m *memory, opts cloud.Options) *cloud.Driver {
	t.Helper()
	d := cloud.New("acme", m, opts)
	t.Cleanup(func() { d.Close() })
	return d
}

func (m *memory) Capabilities() driver.Capabilities { return m.caps }

func (m *memory) Offers(context.Context, driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		if yield(offer(), nil) {
			yield(driver.Offer{}, errSoldOut)
		}
	}
}

func offer() driver.Offer {
	return driver.Offer{ID: "big", InstanceType: "big", Region: "here", HourlyUSD: driver.USD(2)}
}

func (m *memory) Prepare(context.Context, driver.PoolInfo) error { return m.err }
func (m *memory) Release(context.Context, driver.PoolInfo) error { return m.err }

func (m *memory) Create(_ context.Context, o cloud.Order) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.creates++
	there, err := true, error(nil)
	if m.create != nil {
		there, err = m.create(m.creates)
	}
	id := fmt.Sprint("m", m.creates)
	if there {
		m.machines = append(m.machines, cloud.Machine{Tag: o.Tag, Instance: driver.Instance{
			ID: id, State: driver.InstanceRunning, SSH: driver.Endpoint{Addr: "192.0.2.1:22", User: "root"},
		}})
	}
	if err != nil && !errors.Is(err, errSoldOut) {
		id = ""
	} else if !there {
		id = ""
	}
	return id, err
}

// seen returns what a read sees. The caller holds m.mu.
func (m *memory) seen() []cloud.Machine {
	if m.hidden > 0 {
		m.hidden--
		return nil
	}
	return slices.Clone(m.machines)
}

func (m *memory) Machines(context.Context, string) ([]cloud.Machine, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen(), m.err
}

func (m *memory) Machine(_ context.Context, id string) (cloud.Machine, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return cloud.Machine{}, m.err
	}
	for _, found := range m.seen() {
		if found.ID == id {
			return found, nil
		}
	}
	return cloud.Machine{}, errGone
}

func (m *memory) End(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shown {
		return errGone
	}
	n := len(m.machines)
	m.machines = slices.DeleteFunc(m.machines, func(c cloud.Machine) bool { return c.ID == id })
	if m.err == nil && len(m.machines) == n {
		return errGone
	}
	return m.err
}

func (m *memory) Shared(context.Context, string) ([]driver.Resource, error) { return m.shared, nil }
func (m *memory) Close()                                                    { m.closed = true }

func (m *memory) Classify(_ string, err error) (hint string, kind error) {
	switch {
	case errors.Is(err, errGone):
		return "", driver.ErrNotFound
	case errors.Is(err, errSoldOut):
		return "take another", driver.ErrNoCapacity
	}
	return "", nil
}

// request returns a launch of n nodes of pool p1.
func request(t *testing.T, n int) driver.Launch {
	t.Helper()
	req := cloudtest.Request(t, driver.Query{}, offer(), 0)
	for rank := 1; rank < n; rank++ {
		node := req.Nodes[0]
		node.Rank, node.Name = rank, fmt.Sprintf("p1-%d", rank)
		req.Nodes = append(req.Nodes, node)
	}
	return req
}

func injecting(lag time.Duration) driver.Capabilities {
	return driver.Capabilities{HostKeys: driver.HostKeyInjected, ListLag: lag, Tags: true}
}
