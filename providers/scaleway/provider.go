package scaleway

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	// keyTag gives a server a key that logs in: what its images read of their tags.
	keyTag = "AUTHORIZED_KEY="
	// serverTag is on a volume and names its server, also when that is gone.
	serverTag = cloud.Prefix + "server-"
	// anyTag is on everything of gputrain's.
	anyTag = "gputrain"
)

// An api is Scaleway for package cloud. The ID of a machine, and of a volume, is
// "zone/uuid".
type api struct {
	cfg    Config //secretvet:ignore without the key
	client *client
	zones  []string
	keys   hostKeys
	starts starts
}

func newAPI(c Config, client *client) *api {
	a := &api{cfg: c, client: client, zones: zones, keys: hostKeys{known: map[string]published{}}}
	if c.Zone != "" {
		a.zones = []string{c.Zone}
	}
	return a
}

func (a *api) Close() { a.client.close() }

func (a *api) Classify(op string, err error) (hint string, kind error) { return classify(op, err) }

func (a *api) Capabilities() gputrain.Capabilities {
	account := "project " + a.cfg.ProjectID
	if a.cfg.Zone != "" {
		account += " in " + a.cfg.Zone
	}
	return gputrain.Capabilities{
		Account:        account,
		LocalAddresses: localnet.IsURL(a.cfg.Endpoint),
		ListLag:        5 * cloud.Second,  // an estimate
		LateEffect:     60 * cloud.Second, // an estimate
		EndsBilling:    "terminate, and the deletion of its volume",
		DiskResizable:  true,
		Tags:           true,
		HostKeys:       gputrain.HostKeyInjected,
	}
}

// Prepare makes nothing: the key of the pool is in what each server is made with. One of
// the project's would get onto every server of it that boots meanwhile.
func (a *api) Prepare(context.Context, gputrain.PoolInfo) error { return nil }

var errUnknownID = &gputrain.Error{Kind: gputrain.ErrNotFound, Err: errors.New("it is not like fr-par-2/ and a UUID")}

// split reads the ID of a machine or a volume.
func split(id string) (zone, uuid string, err error) {
	zone, uuid, _ = strings.Cut(id, "/")
	if !zoneForm.MatchString(zone) || !uuidForm.MatchString(uuid) {
		return "", "", errUnknownID
	}
	return zone, uuid, nil
}

// Create makes a server, which is stopped: Start starts it.
func (a *api) Create(ctx context.Context, o cloud.Order) (string, error) {
	p, err := readPlace(o.Offer.ID)
	if err != nil {
		return "", err
	}
	s, err := a.client.createServer(ctx, p.zone, createServer{
		Name: o.Name(), Project: a.client.project, CommercialType: p.kind, Image: p.image, DynamicIPRequired: true, BootType: "local",
		Tags: serverTags(o.Tag, o.Pool.AuthorizedKey),
		// Without a size the volume is the image's, of some 10 GB. "0" must be there.
		Volumes: map[string]newVolume{"0": {Size: diskBytes(o.Spec), VolumeType: "sbs_volume"}},
	})
	if err != nil {
		return "", err
	}
	return p.zone + "/" + s.ID, nil
}

func serverTags(t cloud.Tag, key string) []string {
	fields := strings.Fields(key)
	return append(t.Words(), keyTag+strings.Join(fields[:min(len(fields), 2)], "_"))
}

// Start marks the server's volume, puts down what the server is to find when it boots,
// and has it boot. It is here that a zone is out of stock.
func (a *api) Start(ctx context.Context, id string, o cloud.Order) error {
	zone, uuid, err := split(id)
	if err != nil {
		return err
	}
	s, err := a.client.server(ctx, zone, uuid)
	for until := time.Now().Add(a.Capabilities().ListLag); isGone(err) && time.Now().Before(until) && launches.Pause(ctx, cloud.Second); {
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

// tagOf is the tag by which the things of a pool, or of all, are found.
func tagOf(poolID string) string {
	if poolID == "" {
		return anyTag
	}
	return cloud.Prefix + "pool-" + poolID
}

// inZones returns what all zones have. Where there are several, one that the API itself
// does not know has nothing.
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

// machine is what a server tells. One that runs is not said to until it is known what it
// proves itself with.
func (a *api) machine(ctx context.Context, zone string, s server) (cloud.Machine, error) {
	m := cloud.Machine{Tag: cloud.FromWords(s.Tags)}
	m.ID, m.PublicAddr = zone+"/"+s.ID, s.ipv4()
	m.State, m.StateReason = state(s, m.Tag.Created)
	if a.starts.note(s) {
		m.State, m.StateReason = gputrain.InstanceFailed, fellBack(s)
	}
	m.Offer = gputrain.Offer{InstanceType: s.CommercialType, Region: zone}
	if m.State != gputrain.InstanceRunning {
		return m, nil
	}
	keys, ready, err := a.keys.of(ctx, a.client, zone, s.ID, m.Tag.HostKey)
	switch {
	case err != nil:
		return m, err
	case !ready:
		m.State, m.StateReason = gputrain.InstancePending, "its host key is not published yet"
	case m.PublicAddr != "":
		m.SSH = gputrain.Endpoint{Addr: net.JoinHostPort(m.PublicAddr, "22"), User: "root", HostKeys: keys}
	}
	return m, nil
}
