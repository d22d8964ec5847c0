package providertest

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
)

// A trial is one check of one harness.
type trial struct {
	testing.TB
	h     Harness //secretvet:ignore nothing formats a trial
	check string
	name  string // the provider's

	mu       sync.Mutex
	injected []string // the secret line of each host key that the suite has made
}

// A check waits for an event for at most eventTimeout, beyond the provider's own times.
const eventTimeout = 30 * time.Second

// eventually calls f until it returns nil, and returns its error if it does not
// in time.
func (c *trial) eventually(limit time.Duration, f func() error) error {
	deadline := time.Now().Add(limit)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		err := f()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pause)
	}
}

// open opens a driver, and closes it with the check.
func (c *trial) open() driver.Driver {
	c.Helper()
	d, err := c.h.Provider.Open(c.Context())
	if err != nil {
		c.Fatalf("Provider.Open: %v", err)
	}
	c.Cleanup(func() {
		if err := d.Close(); err != nil {
			c.Errorf("Driver.Close: %v", err)
		}
	})
	return d
}

// fault makes calls fail until the check ends, or the result is called.
func (c *trial) fault(op Op, f Fault) (remove func()) {
	c.Helper()
	remove = c.h.Fault(op, f)
	if remove == nil {
		c.Fatalf("the fake has no %v for %s: add it, or say why not in Harness.Without[%q]", f, op, c.check)
	}
	c.Cleanup(remove)
	return remove
}

// names reports whether a name is the provider's or a member's.
func (c *trial) names(provider string) bool {
	return provider == c.name || slices.Contains(c.h.Members, provider)
}

// failure checks that an error is one that a caller can act on: the provider's, of one of the
// kinds, without secrets. It reports whether there is an error.
func (c *trial) failure(what string, err error, kinds ...error) bool {
	c.Helper()
	if err == nil {
		c.Errorf("%s is taken for a success", what)
		return false
	}
	var e *driver.Error
	if !errors.As(err, &e) || !c.names(e.Provider) || e.Op == "" {
		c.Errorf("%s: %v: every error of a provider is a *gputrain.Error with Provider %q and an Op", what, err, c.name)
	}
	if len(kinds) > 0 && !slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
		c.Errorf("%s: %v: the kind of the error must be one of %q", what, err, kinds)
	}
	c.unprinted(what, err.Error())
	return true
}

// unprinted looks for secrets in a text.
func (c *trial) unprinted(what, text string) {
	c.Helper()
	c.mu.Lock()
	secrets := slices.Concat(c.h.Secrets, c.injected)
	c.mu.Unlock()
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			c.Errorf("%s has a secret in it: %s", what, strings.ReplaceAll(text, secret, "<SECRET>"))
		}
	}
}

// A pool is a driver and the pool that it serves. It ends with the check.
type pool struct {
	*trial
	driver.Driver
	caps  driver.Capabilities
	info  driver.PoolInfo
	ranks int

	mu       sync.Mutex
	made     []driver.Resource // the ledger's content
	launched []string
}

// Launch calls the driver's Launch. The check terminates the machines that it returns.
func (p *pool) Launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	got, err := p.Driver.Launch(ctx, req)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.launched = append(p.launched, ids(got)...)
	return got, err
}

// now returns the pool's PoolInfo for its driver, with a ledger.
func (p *pool) now() driver.PoolInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	info := p.info.WithRecord(p.record)
	info.Made = slices.Clone(p.made)
	return info
}

func (p *pool) record(r driver.Resource) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made = append(slices.DeleteFunc(p.made, func(m driver.Resource) bool { return m.Kind == r.Kind && m.Name == r.Name }), r)
	return nil
}

// newInfo returns a PoolInfo of a new pool.
func (c *trial) newInfo() driver.PoolInfo {
	c.Helper()
	keys, err := ssh.NewKeyPair()
	if err != nil {
		c.Fatal(err)
	}
	return driver.PoolInfo{
		ID: "pt-" + strings.ToLower(rand.Text()[:10]), Name: "pt", Owner: "host.example/4711/99", Lease: 15 * time.Minute,
		AuthorizedKey: keys.Public, Expires: time.Now().Add(time.Hour).Truncate(time.Second),
	}
}

// newPool opens a driver for a new pool, without preparing it.
func (c *trial) newPool() *pool {
	c.Helper()
	return c.poolOf(c.newInfo())
}

func (c *trial) poolOf(info driver.PoolInfo) *pool {
	c.Helper()
	d := c.open()
	p := &pool{trial: c, Driver: d, caps: d.Capabilities(), info: info}
	c.Cleanup(p.end)
	return p
}

// prepared returns a new pool, prepared.
func (c *trial) prepared() *pool {
	c.Helper()
	p := c.newPool()
	if err := p.Prepare(c.Context(), p.now()); err != nil {
		c.Fatalf("Driver.Prepare: %v", err)
	}
	return p
}

// end removes everything of the pool.
func (p *pool) end() {
	err := p.eventually(p.caps.ListLag+eventTimeout, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.Context()), eventTimeout)
		defer cancel()
		listed, err := p.List(ctx, p.info.ID)
		p.mu.Lock()
		all := slices.Clone(p.launched)
		p.mu.Unlock()
		for _, r := range listed {
			if r.Kind == "machine" && !slices.Contains(all, r.ID) {
				all = append(all, r.ID)
			}
		}
		return errors.Join(err, p.Terminate(ctx, all...), p.Release(ctx, p.now()))
	})
	if err != nil {
		p.Errorf("after the check, without faults, List, Terminate and Release must leave nothing; they returned %v", err)
	}
}

// requests returns launches of n machines of new ranks, or of as many as a pool can
// have. Like a pool it takes the first offers on demand, or on spot if the spec wants
// only spot, and no more machines of an offer than are available.
func (p *pool) requests(n int) []driver.Launch {
	p.Helper()
	n = p.upTo(n)
	var all []driver.Launch
	for o, err := range p.Offers(p.Context(), p.h.Spec.Query()) {
		if err != nil {
			p.Fatalf("Driver.Offers: %v", err)
		}
		if o.Rejected != "" || o.Spot != (p.h.Spec.Allocation == driver.Spot) {
			continue
		}
		req := driver.Launch{Pool: p.now(), Offer: o, Query: p.h.Spec.Query(), Token: rand.Text()}
		for n > 0 && (o.Available == 0 || p.caps.Adopts || len(req.Nodes) < o.Available) {
			req.Nodes = append(req.Nodes, p.newNode())
			n--
		}
		if all = append(all, req); n == 0 {
			return all
		}
	}
	p.Fatalf("Driver.Offers has no offers for %d machines more of Harness.Spec", n)
	return nil
}

// request returns a launch of one machine.
func (p *pool) request() driver.Launch {
	p.Helper()
	return p.requests(1)[0]
}

// newNode returns a request for the next rank.
func (p *pool) newNode() driver.NodeRequest {
	p.Helper()
	node := driver.NodeRequest{Rank: p.ranks, Name: fmt.Sprintf("%s-%d", p.info.ID, p.ranks)}
	if p.caps.HostKeys == driver.HostKeyInjected {
		keys, err := ssh.NewKeyPair()
		if err != nil {
			p.Fatal(err)
		}
		node.HostKey = driver.HostKey{Private: driver.Secret(keys.Private), Public: keys.Public}
		p.trial.mu.Lock()
		p.injected = append(p.injected, strings.Split(string(keys.Private), "\n")[4])
		p.trial.mu.Unlock()
	}
	p.ranks++
	return node
}

// launchAll makes all requests, and joins their errors.
func (p *pool) launchAll(reqs []driver.Launch) (got []driver.Instance, err error) {
	for _, req := range reqs {
		some, failed := p.Launch(p.Context(), req)
		got, err = append(got, some...), errors.Join(err, failed)
	}
	return got, err
}

// nodes returns the requests' nodes, and their offers by name.
func nodes(reqs []driver.Launch) (all []driver.NodeRequest, offers map[string]driver.Offer) {
	offers = map[string]driver.Offer{}
	for _, req := range reqs {
		for _, n := range req.Nodes {
			all, offers[n.Name] = append(all, n), req.Offer
		}
	}
	return all, offers
}

// upTo returns n, or the maximum of a pool's machines.
func (c *trial) upTo(n int) int {
	if c.h.Machines > 0 {
		return min(n, c.h.Machines)
	}
	return n
}

// launch launches n machines, or the maximum of a pool, and fails the check if there are fewer.
func (p *pool) launch(n int) []driver.Instance {
	p.Helper()
	n = p.upTo(n)
	got, err := p.launchAll(p.requests(n))
	if err != nil || len(got) != n {
		p.Fatalf("Driver.Launch of %d returns %d machines and %v", n, len(got), err)
	}
	return got
}

// running waits until Describe reports the machines as running, and returns them.
func (p *pool) running(got []driver.Instance) []driver.Instance {
	p.Helper()
	now := got
	err := p.eventually(max(p.caps.ProvisionTimeout, eventTimeout), func() error {
		now = p.describe(ids(got)...)
		for _, in := range now {
			if in.State != driver.InstanceRunning {
				return fmt.Errorf("%s is %v", in.ID, in.State)
			}
		}
		return nil
	})
	if err != nil {
		p.Fatalf("a machine that was launched must come to be running by Describe: %v", err)
	}
	return now
}

// describe describes machines, and checks that there is one answer for each, in their order.
func (p *pool) describe(want ...string) []driver.Instance {
	p.Helper()
	got, err := p.Describe(p.Context(), want...)
	if err != nil {
		p.Fatalf("Driver.Describe: %v", err)
	}
	if !slices.Equal(ids(got), want) {
		p.Fatalf("Driver.Describe of %q reports %q: it reports the named machines, in their order, and leaves out none, also where one is gone", want, ids(got))
	}
	return got
}

// listed returns a pool's list once it satisfies a condition.
func (c *trial) listed(d driver.Driver, poolID string, until func([]driver.Resource) error) []driver.Resource {
	c.Helper()
	var list []driver.Resource
	err := c.eventually(d.Capabilities().ListLag+eventTimeout, func() (err error) {
		if list, err = d.List(c.Context(), poolID); err != nil {
			c.Fatalf("Driver.List: %v", err)
		}
		return until(list)
	})
	if err != nil {
		c.Errorf("Driver.List: %v", err)
	}
	return list
}

// machines returns the IDs of the pool's machines in the account, by their names.
func (p *pool) machines() []string {
	var found []string
	for _, r := range p.h.Account() {
		if r.Kind == "machine" && strings.HasPrefix(r.Name, p.info.ID+"-") {
			found = append(found, r.ID)
		}
	}
	slices.Sort(found)
	return found
}

// holds checks that exactly these of the pool's machines exist.
func (p *pool) holds(why string, want ...string) {
	p.Helper()
	if p.caps.Adopts {
		return // its machines existed before
	}
	want = slices.Sorted(slices.Values(want))
	var have []string
	if p.eventually(eventTimeout, func() error {
		if have = p.machines(); !slices.Equal(have, want) {
			return errors.New("not yet")
		}
		return nil
	}) != nil {
		p.Errorf("the account has machines %q of the pool, want %q: %s", have, want, why)
	}
}

// reach connects to a machine's SSH server and waits for its greeting.
func (p *pool) reach(in driver.Instance) error {
	var nc net.Conn
	var err error
	ctx, cancel := context.WithTimeout(p.Context(), eventTimeout)
	defer cancel()
	switch d := p.Driver.(type) {
	case driver.Dialer:
		nc, err = d.Dial(ctx, in)
	default:
		if p.h.Dial != nil {
			nc, err = p.h.Dial(ctx, in.SSH.Addr)
		} else {
			nc, err = new(net.Dialer).DialContext(ctx, "tcp", in.SSH.Addr)
		}
	}
	if err != nil {
		return err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	line, err := bufio.NewReader(nc).ReadString('\n')
	if !strings.HasPrefix(line, "SSH-2.0-") {
		return fmt.Errorf("%q is no SSH server's greeting (%v)", line, err)
	}
	return nil
}

func ids(got []driver.Instance) []string {
	all := []string{}
	for _, in := range got {
		all = append(all, in.ID)
	}
	return all
}

// except returns the elements of all that are not in some.
func except(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}
