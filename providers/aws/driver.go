package aws

import (
	"sync"
	"time"

	"github.com/gputrain/gputrain"
)

const (
	// visibleAfter is how long EC2 may say of a machine that it does not exist, though it
	// has made it.
	visibleAfter = 2 * time.Minute
	// lateEffect is how long a create that nobody waits for may go on.
	lateEffect = time.Minute
	// provisionTimeout covers the largest types, which take 5 to 10 minutes to boot.
	provisionTimeout = 15 * time.Minute
	// preemptionNotice is how long before its end a spot machine is told.
	preemptionNotice = 2 * time.Minute
)

// listLag is how long what was just made may be missing from what EC2 lists.
func listLag() time.Duration { return 15 * second }

// A driver rents the machines of one pool. What it remembers spares calls and says more
// of a machine than its tags do: a driver that knows nothing works, too.
type driver struct {
	cfg     Config //secretvet:ignore complete, without credentials
	api     *client
	account string
	opened  time.Time
	prices  prices

	finding sync.Mutex // held while net is looked up
	net     *network

	mu      sync.Mutex
	made    map[string]machine            //secretvet:ignore without private keys; by the ID of the instance
	images  map[string]image              // by what they are for
	zones   map[string][]string           // of an instance type
	spot    map[string]map[string]float64 // USD an hour, by instance type and zone
	groups  map[string]string             // the IDs of pools' security groups
	pinned  map[string]string             // the zones that pools are in
	noFleet bool                          // fleets are not for this account: machines are run one by one
}

// A machine is an instance that this driver has launched, or ended.
type machine struct {
	node  gputrain.NodeRequest //secretvet:ignore without its private key
	offer gputrain.Offer
	at    time.Time // when it was made; zero where another driver did
	ended bool      // EC2 has taken the order to end it
	gone  bool      // EC2 was asked to end it, and knew no such instance
}

var (
	_ gputrain.Driver            = (*driver)(nil)
	_ gputrain.SelfDestructor    = (*driver)(nil)
	_ gputrain.LeaseMarker       = (*driver)(nil)
	_ gputrain.PreemptionWatcher = (*driver)(nil)
	_ gputrain.Resumer           = (*driver)(nil)
)

func newDriver(cfg Config, api *client) *driver {
	return &driver{
		cfg: cfg, api: api, opened: time.Now(),
		made: map[string]machine{}, images: map[string]image{}, zones: map[string][]string{}, spot: map[string]map[string]float64{},
		groups: map[string]string{}, pinned: map[string]string{},
	}
}

// Capabilities says what EC2 can do.
func (d *driver) Capabilities() gputrain.Capabilities {
	return gputrain.Capabilities{
		Account:          d.account + "/" + d.api.region,
		LocalAddresses:   d.api.local,
		ListLag:          listLag(),
		LateEffect:       lateEffect,
		Spot:             true,
		PreemptionNotice: preemptionNotice,
		EndsBilling:      "TerminateInstances",
		PrivateNetwork:   true,
		DiskResizable:    true,
		Tags:             true,
		HostKeys:         gputrain.HostKeyInjected,
		ProvisionTimeout: provisionTimeout,
	}
}

// Close gives back idle connections.
func (d *driver) Close() error {
	d.api.end()
	return nil
}

func (d *driver) remember(id string, change func(*machine)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.made[id]
	change(&m)
	d.made[id] = m
}

func (d *driver) remembered(id string) machine {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made[id]
}
