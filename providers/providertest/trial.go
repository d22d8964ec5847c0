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

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/ssh"
)

// A trial is one check of one harness.
type trial struct {
	testing.TB
	h     Harness
	check string
	name  string // the provider's

	mu       sync.Mutex
	injected []string // of the host keys that it has made, the line with the secret part
}

// patience is how long what must happen may take, beyond what a provider says of
// itself.
const patience = 30 * time.Second

// eventually calls f until it returns nil, and returns its error where it does not
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
func (c *trial) open() gputrain.Driver {
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

// fault has calls go wrong until the check ends, or the result is called.
func (c *trial) fault(op Op, f Fault) (remove func()) {
	c.Helper()
	remove = c.h.Fault(op, f)
	if remove == nil {
		c.Fatalf("the fake has no %v for %s: add it, or say why not in Harness.Without[%q]", f, op, c.check)
	}
	c.Cleanup(remove)
	return remove
}

// names reports whether a name is the provider's, or of one that it is made of.
func (c *trial) names(provider string) bool {
	return provider == c.name || slices.Contains(c.h.Members, provider)
}

// failure looks whether an error is one that a caller can act on: of the provider,
// of one of the kinds, without secrets. It reports whether there is an error.
func (c *trial) failure(what string, err error, kinds ...error) bool {
	c.Helper()
	if err == nil {
		c.Errorf("%s is taken for a success", what)
		return false
	}
	var e *gputrain.Error
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

// A pool is a driver with the pool that it works for. It ends with the check.
type pool struct {
	*trial
	gputrain.Driver
	caps  gputrain.Capabilities
	info  gputrain.PoolInfo
	ranks int

	mu       sync.Mutex
	made     []gputrain.Resource // as the ledger would have it
	launched []string
}

// Launch is the driver's. What it returns is ended with the check.
func (p *pool) Launch(ctx context.Context, req gputrain.LaunchRequest) ([]gputrain.Instance, error) {
	got, err := p.Driver.Launch(ctx, req)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.launched = append(p.launched, ids(got)...)
	return got, err
}

// now is the pool as its driver is told of it, with a ledger.
func (p *pool) now() gputrain.PoolInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	info := p.info.WithRecord(p.record)
	info.Made = slices.Clone(p.made)
	return info
}

func (p *pool) record(r gputrain.Resource) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made = append(slices.DeleteFunc(p.made, func(m gputrain.Resource) bool { return m.Kind == r.Kind && m.Name == r.Name }), r)
	return nil
}

// newInfo returns what a driver is told of a new pool.
func (c *trial) newInfo() gputrain.PoolInfo {
	c.Helper()
	keys, err := ssh.NewKeyPair()
	if err != nil {
		c.Fatal(err)
	}
	return gputrain.PoolInfo{
		ID: "pt-" + strings.ToLower(rand.Text()[:10]), Name: "pt", Owner: "host.example/4711/99", Lease: 15 * time.Minute,
		AuthorizedKey: keys.Public, Expires: time.Now().Add(time.Hour).Truncate(time.Second),
	}
}

// newPool opens a driver for a new pool, and prepares nothing yet.
func (c *trial) newPool() *pool {
	c.Helper()
	return c.poolOf(c.newInfo())
}

func (c *trial) poolOf(info gputrain.PoolInfo) *pool {
	c.Helper()
	d := c.open()
	p := &pool{trial: c, Driver: d, caps: d.Capabilities(), info: info}
	c.Cleanup(p.end)
	return p
}

// prepared is newPool, prepared.
func (c *trial) prepared() *pool {
	c.Helper()
	p := c.newPool()
	if err := p.Prepare(c.Context(), p.now()); err != nil {
		c.Fatalf("Driver.Prepare: %v", err)
	}
	return p
}

// end leaves nothing of the pool.
func (p *pool) end() {
	err := p.eventually(p.caps.ListLag+patience, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.Context()), patience)
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
		p.Errorf("after the check, with the faults gone, List, Terminate and Release must leave nothing; they say %v", err)
	}
}

// requests asks for n machines of new ranks, or for as many as a pool can have, and as
// it does: of the first offers on demand, or on spot where the spec wants nothing else,
// and of none for more machines than are available.
func (p *pool) requests(n int) []gputrain.LaunchRequest {
	p.Helper()
	n = p.upTo(n)
	var all []gputrain.LaunchRequest
	for o, err := range p.Offers(p.Context(), p.h.Spec) {
		if err != nil {
			p.Fatalf("Driver.Offers: %v", err)
		}
		if o.Spot != (p.h.Spec.Allocation == gputrain.Spot) {
			continue
		}
		req := gputrain.LaunchRequest{Pool: p.now(), Offer: o, Spec: p.h.Spec, Token: rand.Text()}
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

// request is requests for one machine.
func (p *pool) request() gputrain.LaunchRequest {
	p.Helper()
	return p.requests(1)[0]
}

// newNode is the next rank.
func (p *pool) newNode() gputrain.NodeRequest {
	p.Helper()
	node := gputrain.NodeRequest{Rank: p.ranks, Name: fmt.Sprintf("%s-%d", p.info.ID, p.ranks)}
	if p.caps.HostKeys == gputrain.HostKeyInjected {
		keys, err := ssh.NewKeyPair()
		if err != nil {
			p.Fatal(err)
		}
		node.HostKey = gputrain.HostKey{Private: gputrain.Secret(keys.Private), Public: keys.Public}
		p.trial.mu.Lock()
		p.injected = append(p.injected, strings.Split(string(keys.Private), "\n")[4])
		p.trial.mu.Unlock()
	}
	p.ranks++
	return node
}

// launchAll makes the requests, all of them, and joins their errors.
func (p *pool) launchAll(reqs []gputrain.LaunchRequest) (got []gputrain.Instance, err error) {
	for _, req := range reqs {
		some, failed := p.Launch(p.Context(), req)
		got, err = append(got, some...), errors.Join(err, failed)
	}
	return got, err
}

// nodes returns what the requests ask for, and of which offer each is, by its name.
func nodes(reqs []gputrain.LaunchRequest) (all []gputrain.NodeRequest, offers map[string]gputrain.Offer) {
	offers = map[string]gputrain.Offer{}
	for _, req := range reqs {
		for _, n := range req.Nodes {
			all, offers[n.Name] = append(all, n), req.Offer
		}
	}
	return all, offers
}

// upTo returns n, or how many machines a pool can have.
func (c *trial) upTo(n int) int {
	if c.h.Machines > 0 {
		return min(n, c.h.Machines)
	}
	return n
}

// launch launches n machines, or as many as a pool can have, and wants as many.
func (p *pool) launch(n int) []gputrain.Instance {
	p.Helper()
	n = p.upTo(n)
	got, err := p.launchAll(p.requests(n))
	if err != nil || len(got) != n {
		p.Fatalf("Driver.Launch of %d returns %d machines and %v", n, len(got), err)
	}
	return got
}

// running waits until the machines run, and returns them as Describe has them then.
func (p *pool) running(got []gputrain.Instance) []gputrain.Instance {
	p.Helper()
	now := got
	err := p.eventually(max(p.caps.ProvisionTimeout, patience), func() error {
		now = p.describe(ids(got)...)
		for _, in := range now {
			if in.State != gputrain.InstanceRunning {
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

// describe describes machines, and wants one answer for each, in their order.
func (p *pool) describe(want ...string) []gputrain.Instance {
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

// listed returns what List has of a pool once that satisfies a condition.
func (c *trial) listed(d gputrain.Driver, poolID string, until func([]gputrain.Resource) error) []gputrain.Resource {
	c.Helper()
	var list []gputrain.Resource
	err := c.eventually(d.Capabilities().ListLag+patience, func() (err error) {
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

// machines returns the IDs of machines in the account that are the pool's, by
// their names.
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

// holds looks whether exactly these of the pool's machines exist.
func (p *pool) holds(why string, want ...string) {
	p.Helper()
	if p.caps.Adopts {
		return // its machines were there before
	}
	want = slices.Sorted(slices.Values(want))
	var have []string
	if p.eventually(patience, func() error {
		if have = p.machines(); !slices.Equal(have, want) {
			return errors.New("not yet")
		}
		return nil
	}) != nil {
		p.Errorf("the account has machines %q of the pool, want %q: %s", have, want, why)
	}
}

// reach connects to a machine's SSH server and waits for its greeting.
func (p *pool) reach(in gputrain.Instance) error {
	var nc net.Conn
	var err error
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	switch d := p.Driver.(type) {
	case gputrain.Dialer:
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

func ids(got []gputrain.Instance) []string {
	all := []string{}
	for _, in := range got {
		all = append(all, in.ID)
	}
	return all
}

// except returns what of all is not in some.
func except(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}
