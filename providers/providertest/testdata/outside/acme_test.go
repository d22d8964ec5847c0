// Package acme is a provider in another module, with a fake of its API. It uses only
// gputrain's public packages.
package acme

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/providertest"
)

type config struct{ endpoint string }

type server struct {
	ID, Name, Pool, Owner, Key, Addr, HostKey string
	Rank                                      int
	Created, Expires                          time.Time
	Lease                                     time.Duration
}

func (config) Name() string                                   { return "acme" }
func (c config) Open(context.Context) (driver.Driver, error)  { return c, nil }
func (config) Prepare(context.Context, driver.PoolInfo) error { return nil }
func (config) Release(context.Context, driver.PoolInfo) error { return nil }
func (config) Close() error                                   { return nil }
func (config) Capabilities() driver.Capabilities {
	return driver.Capabilities{Account: "acme", EndsBilling: "delete", Tags: true, LocalAddresses: true, HostKeys: driver.HostKeyPublished}
}

func (c config) offer() driver.Offer {
	return driver.Offer{Provider: "acme", InstanceType: "small", Region: "here", Country: "NO", VCPUs: 2, MemoryGiB: 4, HourlyUSD: driver.USD(1)}
}

func (c config) Offers(_ context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) { yield(c.offer(), nil) }
}

func (c config) call(ctx context.Context, op, method, path string, in, out any) (status int, err error) {
	defer func() {
		if err != nil {
			err = &driver.Error{Provider: "acme", Op: op, Kind: driver.ErrUnavailable, Err: err}
		}
	}()
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, method, c.endpoint+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || resp.StatusCode == http.StatusNotFound {
		return resp.StatusCode, err
	}
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, fmt.Errorf("status %d", resp.StatusCode)
	}
	return resp.StatusCode, json.Unmarshal(text, out)
}

func (c config) instance(s server) driver.Instance {
	return driver.Instance{ID: s.ID, Name: s.Name, Rank: s.Rank, State: driver.InstanceRunning, PublicAddr: "127.0.0.1", Offer: c.offer(),
		SSH: driver.Endpoint{Addr: s.Addr, User: "root", HostKeys: []string{s.HostKey}}}
}

func (c config) Launch(ctx context.Context, r driver.Launch) (got []driver.Instance, err error) {
	for _, n := range r.Nodes {
		s := server{Name: n.Name, Rank: n.Rank, Pool: r.Pool.ID, Owner: r.Pool.Owner, Key: r.Pool.AuthorizedKey, Expires: r.Pool.Expires, Lease: r.Pool.Lease}
		if _, err := c.call(ctx, "launch", "POST", "/servers", s, &s); err != nil {
			return got, err
		}
		got = append(got, c.instance(s))
	}
	return got, nil
}

func (c config) Describe(ctx context.Context, ids ...string) (got []driver.Instance, err error) {
	for _, id := range ids {
		var s server
		status, err := c.call(ctx, "describe", "GET", "/servers/"+id, nil, &s)
		if err != nil {
			return nil, err
		}
		in := c.instance(s)
		if status == http.StatusNotFound {
			in = driver.Instance{ID: id, State: driver.InstanceTerminated}
		}
		got = append(got, in)
	}
	return got, nil
}

func (c config) List(ctx context.Context, pool string) (all []driver.Resource, err error) {
	var servers []server
	if _, err := c.call(ctx, "list", "GET", "/servers", nil, &servers); err != nil {
		return nil, err
	}
	for _, s := range servers {
		if s.Pool != "" && (pool == "" || s.Pool == pool) {
			all = append(all, driver.Resource{Provider: "acme", Kind: "machine", ID: s.ID, Name: s.Name, Region: "here", HourlyUSD: driver.USD(1),
				Pool: s.Pool, Owner: s.Owner, State: driver.InstanceRunning, Created: s.Created, Expires: s.Expires, Lease: s.Lease})
		}
	}
	return all, nil
}

func (c config) Terminate(ctx context.Context, ids ...string) error {
	var errs []error
	for _, id := range ids {
		_, err := c.call(ctx, "terminate", "DELETE", "/servers/"+id, nil, new(struct{}))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// A fake keeps servers, each with a machine that is a real SSH node.
type fake struct {
	*providertest.Server
	servers  map[string]server
	machines map[string]*providertest.Machine
}

func startFake(t *testing.T) *fake {
	const all, one = "/servers", "/servers/{id}"
	f := &fake{providertest.StartServer(t, nil, "POST "+all, "GET "+all, "GET "+one, "DELETE "+one), map[string]server{}, map[string]*providertest.Machine{}}
	f.Handle("POST "+all, func(c *providertest.Call) providertest.Answer {
		var s server
		c.Decode(&s)
		m := providertest.NewMachine(t, providertest.MachineConfig{AuthorizedKey: s.Key})
		s.ID, s.Addr, s.HostKey, s.Created = fmt.Sprint("s-", c.N), m.Addr(), m.HostKey, time.Now()
		f.servers[s.ID], f.machines[s.ID] = s, m
		return providertest.Reply(200, s)
	})
	f.Handle("GET "+all, func(*providertest.Call) providertest.Answer {
		list := []server{}
		for _, s := range f.servers {
			list = append(list, s)
		}
		return providertest.Reply(200, list)
	})
	f.Handle("GET "+one, func(c *providertest.Call) providertest.Answer {
		if s, ok := f.servers[c.Vars["id"]]; ok {
			return providertest.Reply(200, s)
		}
		return providertest.Reply(404, map[string]string{})
	})
	f.Handle("DELETE "+one, func(c *providertest.Call) providertest.Answer {
		if m := f.machines[c.Vars["id"]]; m != nil {
			m.Kill()
		}
		delete(f.servers, c.Vars["id"])
		delete(f.machines, c.Vars["id"])
		return providertest.Reply(200, map[string]string{})
	})
	return f
}

var ops = map[providertest.Op][]string{
	providertest.OpLaunch: {"POST /servers"}, providertest.OpDescribe: {"GET /servers/{id}"},
	providertest.OpList: {"GET /servers"}, providertest.OpTerminate: {"DELETE /servers/{id}"},
}

func TestMain(m *testing.M) {
	gputrain.Init()
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		f := startFake(t)
		_, calls := providertest.OnServer(f.Server, ops)
		const small = "this provider is as small as one can be"
		return providertest.Harness{
			Provider: config{f.URL},
			Calls:    calls,
			Live: func() (n int) {
				f.Do(func() { n = len(f.machines) })
				return n
			},
			Without: map[string]string{
				"Fault": small, "Account": small, "Foreign": small, "States": small, "Stall": small, "Room": small, "Unpriced": small,
				"PagedOffers": small, "Metered": small, "Funds": small, "Allow": small, "Tags": small, "MissingKey": small, "WrongKey": small, "Secrets": small,
			},
		}
	})
}

// OnServer makes faults in this fake too.
func TestFault(t *testing.T) {
	f := startFake(t)
	fault, calls := providertest.OnServer(f.Server, ops)
	remove := fault(providertest.OpList, providertest.Fault{Kind: providertest.Unavailable, Times: -1})
	c := config{f.URL}
	if _, err := c.List(t.Context(), ""); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("it says %v", err)
	}
	remove()
	if _, err := c.List(t.Context(), ""); err != nil || calls(providertest.OpList) != 2 {
		t.Errorf("%d calls: %v", calls(providertest.OpList), err)
	}
}
