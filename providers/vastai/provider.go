package vastai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

const (
	// A request may still take effect until lateEffect after its caller has given up. Vast does
	// not document this: its own command line waits that long for an answer, so that no later
	// effect is expected.
	lateEffect = 2 * time.Minute
	// provisionTimeout covers a pull, which takes 1 to 5 minutes, and up to loadTimeout on a
	// slow host.
	provisionTimeout = 15 * time.Minute
	// The API's reports may lack a new instance for createLag seconds. It is an estimate: Vast
	// documents no such time, and other programs document only that a read must be repeated
	// after a create. An instance that appears later has counted as gone or never made, and the
	// pool's audits end it.
	createLag = 15
)

// provider is Vast.ai's [cloud.API]. What it remembers saves calls and avoids earlier failures.
// A provider that remembers nothing works, too.
type provider struct {
	cfg     Config  //secretvet:ignore complete, without the key
	image   string  // Config.Image, "" if it was left open
	minCUDA float64 // Config.MinCUDA, 0 if it was left open
	client  *client
	account string
	lag     time.Duration // Capabilities.ListLag
	network *network
	logs    *hostKeyLogs
	login   func() string // the registry's credentials, or ""; not a field, which could be printed

	mu      sync.Mutex
	found   map[string]find  // by the ID of the offer
	notes   map[string]*note // by the ID of the instance
	broken  map[int64]bool   // machines whose instance failed
	refusal refusal
}

// A note has the facts about an instance that this program has launched, taken over or ended.
type note struct {
	machine  int64     // Vast's machine, which takes one node of a network at most
	launched time.Time // by this program; else zero
	failed   error     // the error of the create that left it
	ended    bool      // the API has accepted the call to end it
	bulk     bool      // that call was for several instances
	ran      bool      // it has been running
	waits    time.Time // since when it waits for its GPU again; else zero
	tail     *string   // the end of its log, once it has failed and the log was read
}

var (
	_ cloud.API     = (*provider)(nil)
	_ cloud.Starter = (*provider)(nil)
	_ cloud.Teller  = (*provider)(nil)
	_ cloud.Ender   = (*provider)(nil)

	_ driver.Balancer = (*provider)(nil)
)

// newProvider returns a provider of a configuration, which it completes.
func newProvider(given Config, key string) (*provider, error) {
	cfg := given.complete()
	client, err := newClient(cfg, key)
	if err != nil {
		return nil, fmt.Errorf("%w: Endpoint: %w", driver.ErrInvalid, err)
	}
	return &provider{
		cfg: cfg, image: given.Image, minCUDA: given.MinCUDA, client: client, login: func() string { return "" }, lag: createLag * cloud.Second, network: newNetwork(client, cfg), logs: newHostKeyLogs(client),
		found: map[string]find{}, notes: map[string]*note{}, broken: map[int64]bool{},
	}, nil
}

// configFor returns the configuration for nodes of a spec, which may name the image that Config leaves open.
func configFor(p *provider, spec driver.Query) Config {
	if p.image != "" || spec.Image == "" {
		return p.cfg
	}
	return p.cfg.running(spec.Image, p.minCUDA)
}

// loginFor returns the credentials for the registry of a node's image, as Vast's API takes them, or "". A spec's come
// before Config's.
func loginFor(p *provider, order cloud.Order) (string, error) {
	token := string(order.Login.Password)
	switch {
	case token == "":
		return p.login(), nil
	case strings.ContainsAny(token+order.Login.User, " \t\r\n\x00"):
		return "", fmt.Errorf("%w: the login of Image.Docker has a blank, which Vast's API does not accept", driver.ErrInvalid)
	}
	p.client.rest.Hide(token)
	return "-u " + order.Login.User + " -p " + token + " " + cmp.Or(configFor(p, order.Spec).registry(), "docker.io"), nil
}

// Capabilities returns the same for all offers.
func (p *provider) Capabilities() driver.Capabilities {
	keys := driver.HostKeyPublished
	if p.cfg.TrustFirstContact {
		keys = driver.HostKeyFirstContact
	}
	return driver.Capabilities{
		Account:          p.account,
		LocalAddresses:   localnet.IsURL(p.cfg.Endpoint),
		ListLag:          p.lag,
		LateEffect:       lateEffect,
		Spot:             true,
		EndsBilling:      "destroy",
		PrivateNetwork:   p.cfg.UseOverlay,
		Ports:            driver.PortsOfNetwork, // a container's host may have others
		DiskResizable:    true,
		Tags:             true,
		Images:           &driver.Images{Configured: p.image, Logins: true},
		HostKeys:         keys,
		ProvisionTimeout: provisionTimeout,
	}
}

// Balance returns the account's credit. Vast rents with any credit above zero.
func (p *provider) Balance(ctx context.Context, _ driver.Offer) (driver.Balance, error) {
	me, err := p.client.user(ctx)
	credit := me.Credit
	if credit == nil {
		credit = me.Balance // the API's description has only this one
	}
	if err != nil || credit == nil {
		return driver.Balance{}, err
	}
	return driver.Balance{Known: true, USD: *credit}, nil
}

// Close closes idle connections.
func (p *provider) Close() { p.client.close() }

// Machine returns an instance.
func (p *provider) Machine(ctx context.Context, id string) (cloud.Machine, error) {
	if !isID(id) {
		return cloud.Machine{Instance: driver.Instance{ID: id, State: driver.InstanceTerminated, StateReason: "it is not a Vast.ai ID"}}, nil
	}
	if p.hasEnded(id) {
		return cloud.Machine{}, errUnknown // the list lacks it, too
	}
	in, err := p.client.instance(ctx, id)
	if err != nil {
		return cloud.Machine{}, err
	}
	if in == nil {
		return cloud.Machine{}, errUnknown
	}
	return p.machine(*in), nil
}

// hasEnded reports whether the API has accepted the end of an instance from a successful
// create.
func (p *provider) hasEnded(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.notes[id]
	return r != nil && r.ended && r.failed == nil
}

// Machines returns all instances of the account: the API's list has no filter by a label's
// prefix.
func (p *provider) Machines(ctx context.Context, _ string) ([]cloud.Machine, error) {
	all, err := p.client.list(ctx)
	return cloud.Each(all, p.machine), err
}

// noteOf returns the note of an instance, which may be empty. p.mu is held.
func (p *provider) noteOf(id string) *note {
	if p.notes[id] == nil {
		p.notes[id] = &note{}
	}
	return p.notes[id]
}

// errUnknown is the error of an instance that does not exist.
var errUnknown = &driver.Error{Kind: driver.ErrNotFound, Err: errors.New("the account has no such machine")}

// isID reports whether an ID has the form of Vast.ai's, a number.
func isID(id string) bool {
	n, err := strconv.ParseInt(id, 10, 64)
	return err == nil && n > 0 && strconv.FormatInt(n, 10) == id
}

// Prepare registers the pool's SSH key with the account: the API puts it into all containers
// that are made from then on. The first launch makes the overlay network.
func (p *provider) Prepare(ctx context.Context, pool driver.PoolInfo) error {
	p.network.begin(pool)
	_, err := p.keysOf(pool).Prepare(ctx, pool)
	return err
}

// keysOf returns the account's keys. A pool's tag in its comment distinguishes its key from the
// user's own.
func (p *provider) keysOf(pool driver.PoolInfo) cloud.Keys {
	return cloud.Keys{
		List: func(ctx context.Context) ([]cloud.Key, error) {
			all, err := p.client.keys(ctx)
			return cloud.Each(all, sshKey.key), err
		},
		Add: func(ctx context.Context, _, line string) error {
			return p.client.addKey(ctx, line+" "+labels.String(pooltag.Of(pool, time.Now())))
		},
		Delete: p.client.deleteKey,
		Gone:   isGone,
	}
}

// Shared returns the SSH keys of a pool, or of all, and their networks.
func (p *provider) Shared(ctx context.Context, poolID string) ([]driver.Resource, error) {
	keys, err := p.keysOf(driver.PoolInfo{}).Resources(ctx, poolID)
	may, certain := p.network.mayExist(poolID)
	if err != nil || !may {
		return keys, err
	}
	networks, err := p.network.resources(ctx, poolID)
	if poolID != "" && !certain && kindOf(err) == driver.ErrAuth {
		err = nil
	}
	return append(keys, networks...), err
}

// Release removes the pool's key, and its network, if it may have one.
func (p *provider) Release(ctx context.Context, pool driver.PoolInfo) error {
	err := p.keysOf(pool).Release(ctx, pool)
	p.network.recall(pool)
	if may, certain := p.network.mayExist(pool.ID); may {
		removed := p.network.remove(ctx, pool.ID)
		if certain || kindOf(removed) != driver.ErrAuth {
			err = errors.Join(err, removed)
		}
	}
	return err
}
