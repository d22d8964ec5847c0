package scaleway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/currency"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

const (
	// keyTag gives a server an authorized key: Scaleway's images read it from the tags.
	keyTag = "AUTHORIZED_KEY="
	// serverTag is on a volume and names its server, even after the server is gone.
	serverTag = pooltag.Prefix + "server-"
	// anyTag is on everything that gputrain makes.
	anyTag = "gputrain"
)

// An api is Scaleway's [cloud.API]. The ID of a machine, and of a volume, is "zone/uuid".
type api struct {
	cfg    Config //secretvet:ignore without the key
	client *client
	zones  []string
	keys   hostKeys
	starts starts
	rate   currency.Rate // of the euro
	public bool          // it has no key, and is asked for offers only

	imageMu   sync.Mutex
	imageZone string // of Config.Image, if that is an ID whose zone was looked up
}

func newAPI(c Config, client *client, rate currency.Rate) *api {
	a := &api{cfg: c, client: client, rate: rate, zones: zones, keys: hostKeys{known: map[string]published{}}}
	if c.Zone != "" {
		a.zones = []string{c.Zone}
	}
	return a
}

func (a *api) Close() { a.client.close() }

func (a *api) Classify(op string, err error) (hint string, kind error) { return classify(op, err) }

func (a *api) Capabilities() driver.Capabilities {
	account := "project " + a.cfg.ProjectID
	if a.cfg.Zone != "" {
		account += " in " + a.cfg.Zone
	}
	return driver.Capabilities{
		Account:        account,
		LocalAddresses: localnet.IsURL(a.cfg.Endpoint),
		ListLag:        5 * cloud.Second,  // an estimate
		LateEffect:     60 * cloud.Second, // an estimate
		EndsBilling:    "terminate, and the deletion of its volume",
		DiskResizable:  true,
		Tags:           true,
		UserTags:       true,
		HostKeys:       driver.HostKeyInjected,
	}
}

// Prepare makes nothing: each server's own data contains the pool's key. A key of the project
// would get onto every server of it that boots meanwhile. It refuses tags that a server cannot
// have.
func (a *api) Prepare(_ context.Context, pool driver.PoolInfo) error {
	_, err := userTags(pool.Tags)
	return err
}

var errUnknownID = &driver.Error{Kind: driver.ErrNotFound, Err: errors.New("it is not like fr-par-2/ and a UUID")}

// split reads the ID of a machine or a volume.
func split(id string) (zone, uuid string, err error) {
	zone, uuid, _ = strings.Cut(id, "/")
	if !zoneForm.MatchString(zone) || !uuidForm.MatchString(uuid) {
		return "", "", errUnknownID
	}
	return zone, uuid, nil
}

// Create makes a stopped server. Start starts it.
func (a *api) Create(ctx context.Context, o cloud.Order) (string, error) {
	p, err := readPlace(o.Offer.ID)
	if err != nil {
		return "", err
	}
	tags, err := userTags(o.Pool.Tags)
	if err != nil {
		return "", err
	}
	s, err := a.client.createServer(ctx, p.zone, createServer{
		Name: o.Name(), Project: a.client.project, CommercialType: p.kind, Image: p.image, DynamicIPRequired: true, BootType: "local",
		Tags: append(serverTags(o.Tag, o.Pool.AuthorizedKey), tags...),
		// Without a size the volume is the image's, of some 10 GB. "0" must be there.
		Volumes: map[string]newVolume{"0": {Size: diskBytes(o.Spec), VolumeType: "sbs_volume"}},
	})
	if err != nil {
		return "", err
	}
	return p.zone + "/" + s.ID, nil
}

func serverTags(t pooltag.Tag, key string) []string {
	fields := strings.Fields(key)
	return append(t.Words(), keyTag+strings.Join(fields[:min(len(fields), 2)], "_"))
}

// userTags returns the user's tags as words: "team=vision".
func userTags(tags map[string]string) ([]string, error) {
	for name := range tags {
		if strings.EqualFold(name+"=", keyTag) {
			return nil, fmt.Errorf("%w: the tag %s would let another key log in", driver.ErrInvalid, name)
		}
	}
	return pooltag.UserWords(tags)
}

// Start marks the server's volume, writes the data that the server reads at boot, and starts
// it. It waits for a server that the API does not show yet, as long as it would for its boot. Only here a zone reports that it is out of stock.
func (a *api) Start(ctx context.Context, id string, o cloud.Order) error {
	zone, uuid, err := split(id)
	if err != nil {
		return err
	}
	s, err := a.client.server(ctx, zone, uuid)
	for until := time.Now().Add(driver.DefaultProvisionTimeout); isGone(err) && time.Now().Before(until) && retry.Sleep(ctx, cloud.Second); {
		s, err = a.client.server(ctx, zone, uuid)
	}
	if err != nil {
		return err
	}
	if err := a.markVolumes(ctx, zone, s); err != nil {
		return err
	}
	a.client.rest.Hide(string(o.Node.HostKey.Private))
	text, err := cloud.UserData(o.Pool, o.Node, true, nil)
	if err != nil {
		return err
	}
	if err := a.client.setUserData(ctx, zone, uuid, "cloud-init", text); err != nil {
		return err
	}
	return a.boot(ctx, zone, uuid)
}

// Machines asks all zones at the same time.
func (a *api) Machines(ctx context.Context, poolID string) ([]cloud.Machine, error) {
	return inZones(ctx, a.zones, func(ctx context.Context, zone string) (all []cloud.Machine, err error) {
		servers, err := a.client.servers(ctx, zone, tagOf(poolID))
		for _, s := range servers {
			m, err := a.machine(ctx, zone, s)
			if err != nil {
				return nil, err
			}
			all = append(all, m)
		}
		return all, err
	})
}

// tagOf returns the tag that finds the things of a pool, or of all.
func tagOf(poolID string) string {
	if poolID == "" {
		return anyTag
	}
	return pooltag.Prefix + "pool-" + poolID
}

// inZones returns the results of all zones. If there are several, a zone that the API does not
// know has none.
func inZones[T any](ctx context.Context, zones []string, in func(ctx context.Context, zone string) ([]T, error)) ([]T, error) {
	var (
		mu  sync.Mutex
		all []T
	)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(len(zones))
	for _, zone := range zones {
		g.Go(func() error {
			found, err := in(ctx, zone)
			if len(zones) > 1 && isGone(err) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, found...)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return all, nil
}

func (a *api) Machine(ctx context.Context, id string) (cloud.Machine, error) {
	zone, uuid, err := split(id)
	if err != nil {
		return cloud.Machine{}, err
	}
	s, err := a.client.server(ctx, zone, uuid)
	if err != nil {
		return cloud.Machine{}, err
	}
	return a.machine(ctx, zone, s)
}

// machine translates a server. A running server is reported as running only once its host keys
// are known.
func (a *api) machine(ctx context.Context, zone string, s server) (cloud.Machine, error) {
	m := cloud.Machine{Tag: pooltag.FromWords(s.Tags)}
	created, _ := time.Parse(time.RFC3339, s.Created) // zero if it is not a time
	m.Doubt = m.Tag.Doubt(s.Name, created)
	m.ID, m.PublicAddr = zone+"/"+s.ID, s.ipv4()
	m.State, m.StateReason = state(s, m.Tag.Created)
	if a.starts.note(s) {
		m.State, m.StateReason = driver.InstanceFailed, fellBack(s)
	}
	m.Offer = driver.Offer{InstanceType: s.CommercialType, Region: zone, Country: countryOf(zone)}
	if m.State != driver.InstanceRunning {
		return m, nil
	}
	keys, ready, err := a.keys.ofServer(ctx, a.client, zone, s.ID, m.Tag.HostKey)
	switch {
	case err != nil:
		return m, err
	case !ready:
		m.State, m.StateReason = driver.InstancePending, "its host key is not published yet"
	case m.PublicAddr != "":
		m.SSH = driver.Endpoint{Addr: net.JoinHostPort(m.PublicAddr, "22"), User: "root", HostKeys: keys}
	}
	return m, nil
}
