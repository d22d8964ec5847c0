package verda

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	// maxHostname is how long a host name may be.
	maxHostname = 60
	// maxImages is how many images are tried for a machine that refuses them.
	maxImages = 3
	// endWait is how many seconds a machine that is provisioning, which cannot be deleted,
	// is waited for.
	endWait = 120
)

// A verda is the API with what a driver has learnt of it. What it remembers spares calls.
type verda struct {
	client *client
	cfg    Config //secretvet:ignore without the secret

	mu     sync.Mutex
	images map[string][]string // by type of machine
	keyIDs map[string]string   // by pool and key
	ended  map[string]bool     // machines that were deleted here
}

// Capabilities says what Verda can do. How late its lists are, and its effects, is estimated.
func (v *verda) Capabilities() gputrain.Capabilities {
	return gputrain.Capabilities{
		Account:          "client " + v.cfg.ClientID,
		LocalAddresses:   localnet.IsURL(v.cfg.Endpoint),
		ListLag:          15 * cloud.Second,
		LateEffect:       v.cfg.RequestTimeout + 30*time.Second,
		Spot:             true,
		EndsBilling:      "delete",
		DiskResizable:    true,
		Tags:             true,
		HostKeys:         gputrain.HostKeyFirstContact,
		ProvisionTimeout: 15 * time.Minute,
	}
}

func (v *verda) keys() cloud.Keys {
	return cloud.Keys{
		List: func(ctx context.Context) ([]cloud.Key, error) {
			all, err := v.client.sshKeys(ctx)
			var keys []cloud.Key
			for _, k := range all {
				keys = append(keys, cloud.Key{ID: k.ID, Name: k.Name, Line: k.Key})
			}
			return keys, err
		},
		Add:    v.client.addSSHKey,
		Delete: v.client.deleteSSHKey,
		Gone:   isGone,
	}
}

// Prepare registers the pool's SSH key, where there is money for machines: the API is prepaid.
func (v *verda) Prepare(ctx context.Context, pool gputrain.PoolInfo) error {
	switch balance, err := v.client.balance(ctx); {
	case err != nil:
		return err
	case balance <= 0:
		return &gputrain.Error{Kind: gputrain.ErrQuota, Err: errors.New("the balance is used up"), Hint: fundsHint}
	}
	key, err := v.keys().Prepare(ctx, pool)
	if err == nil {
		v.rememberKey(pool, key.ID)
	}
	return err
}

// Release removes it, and the volumes that the pool's machines have left.
func (v *verda) Release(ctx context.Context, pool gputrain.PoolInfo) error {
	left, err := v.leftovers(ctx, pool.ID)
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range left {
		if err := v.client.deleteVolume(ctx, l.ID); err != nil && !isGone(err) {
			errs = append(errs, fmt.Errorf("volume %s: %w", l.ID, err))
		}
	}
	return errors.Join(append(errs, v.keys().Release(ctx, pool))...)
}

func (v *verda) rememberKey(pool gputrain.PoolInfo, id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keyIDs[pool.ID+" "+pool.AuthorizedKey] = id
}

// keyID is the pool's SSH key, which may have been registered by another driver.
func (v *verda) keyID(ctx context.Context, pool gputrain.PoolInfo) (string, error) {
	v.mu.Lock()
	id := v.keyIDs[pool.ID+" "+pool.AuthorizedKey]
	v.mu.Unlock()
	if id != "" {
		return id, nil
	}
	key, err := v.keys().Find(ctx, pool)
	if err != nil {
		return "", err
	}
	if key == nil {
		return "", fmt.Errorf("%w: the pool's SSH key is not in the project: Prepare registers it", gputrain.ErrInvalid)
	}
	v.rememberKey(pool, key.ID)
	return key.ID, nil
}

// Create rents a machine. An image that it does not take is refused before anything is made.
func (v *verda) Create(ctx context.Context, o cloud.Order) (id string, err error) {
	location, instanceType, spot, err := parseOffer(o.Offer.ID)
	if err != nil {
		return "", err
	}
	images, err := v.imagesFor(ctx, instanceType)
	if err != nil {
		return "", err
	}
	key, err := v.keyID(ctx, o.Pool)
	if err != nil {
		return "", err
	}
	in := order{
		InstanceType: instanceType, Location: location, SSHKeyIDs: []string{key}, Contract: "PAY_AS_YOU_GO", IsSpot: spot,
		Hostname: hostname(o.Name()), Description: o.Name(), Tags: tagList(o.Tag),
		OSVolume: osVolume{Name: o.Name() + osSuffix, GB: diskGB(o.Spec), Tags: tagList(o.Tag)},
	}
	if v.cfg.SSHKeyID != "" && v.cfg.SSHKeyID != key {
		in.SSHKeyIDs = append(in.SSHKeyIDs, v.cfg.SSHKeyID)
	}
	if spot {
		in.Contract, in.OSVolume.OnEviction = "SPOT", "delete_permanently"
	}
	for _, in.Image = range images[:min(len(images), maxImages)] {
		id, err = v.client.create(ctx, in)
		if _, refused := cloud.Answered(err); !refused || !says(err, "operating system is not valid") {
			break
		}
	}
	return id, err
}

// hostname is a machine's name, as far as there is room for it.
func hostname(name string) string { return strings.TrimRight(name[:min(len(name), maxHostname)], "-") }

func tagList(t cloud.Tag) []tag {
	pairs := t.Pairs()
	var tags []tag
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		tags = append(tags, tag{Key: key, Value: pairs[key]})
	}
	return tags
}

// Machines returns all of the project: whether the API's filter by tags is whole is not known.
func (v *verda) Machines(ctx context.Context, _ string) ([]cloud.Machine, error) {
	all, err := v.client.instances(ctx)
	if err != nil {
		return nil, err
	}
	var machines []cloud.Machine
	for _, in := range all {
		machines = append(machines, v.machine(in))
	}
	return machines, nil
}

// Machine returns one machine.
func (v *verda) Machine(ctx context.Context, id string) (cloud.Machine, error) {
	in, err := v.client.instance(ctx, id)
	if err != nil {
		return cloud.Machine{}, err
	}
	return v.machine(in), nil
}

// machine is what the API tells of an instance. The price that it tells may be that of one GPU
// or of all, and is not taken.
func (v *verda) machine(in instance) cloud.Machine {
	v.mu.Lock()
	ended := v.ended[in.ID]
	v.mu.Unlock()
	m := cloud.Machine{Tag: ownerOf(in)}
	m.ID, m.PublicAddr = in.ID, in.IP
	m.State, m.StateReason = stateOf(in, ended)
	m.Offer = in.hardware.offer()
	m.Offer.ID, m.Offer.Region, m.Offer.Spot = offerID(in.Location, in.InstanceType, in.IsSpot), in.Location, in.IsSpot
	if in.IP != "" {
		m.SSH = gputrain.Endpoint{Addr: net.JoinHostPort(in.IP, "22"), User: "root"}
	}
	return m
}

// ownerOf says whose node a machine is: by its tags, or where they are gone by its description.
func ownerOf(in instance) cloud.Tag {
	t := readTags(in.Tags)
	if t.Pool == "" && in.Hostname == hostname(in.Description) {
		t = cloud.FromName(in.Description)
		t.Created = moment(in.CreatedAt)
	}
	return t
}

// End deletes a machine and its system volume. Others that it has somebody has attached, and
// they are detached.
func (v *verda) End(ctx context.Context, id string) error {
	in, err := v.client.instance(ctx, id)
	if err != nil {
		return err
	}
	var missing error // what the API says of a machine that it does not find
	gone := in.Status == "discontinued"
	if !gone {
		if err = v.delete(ctx, id, in.OSVolumeID); isGone(err) {
			gone, missing, err = true, err, nil
		}
	}
	if gone && in.OSVolumeID != "" { // it may have outlived its machine
		if err = v.client.deleteVolume(ctx, in.OSVolumeID); isGone(err) {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended[id] = true
	return missing
}

// delete deletes a machine by name of its system volume, which without that is known to be
// left, and billed on. A machine that is being provisioned cannot be deleted yet.
func (v *verda) delete(ctx context.Context, id, volume string) error {
	until := time.Now().Add(endWait * cloud.Second)
	for wait := cloud.Second; ; wait = min(2*wait, 10*cloud.Second) {
		err := v.client.end(ctx, id, volume)
		switch {
		case volume != "" && says(err, "volume"): // one that is gone must not keep the machine
			volume = ""
			continue
		case !says(err, "can't discontinue a provisioning") || time.Now().After(until):
			return err
		case !launches.Pause(ctx, wait):
			return fmt.Errorf("%w; %w", err, context.Cause(ctx))
		}
	}
}

// Classify says what kind of failure an error is, by the API's words.
func (v *verda) Classify(op string, err error) (hint string, kind error) { return classify(op, err) }

// Close gives back connections.
func (v *verda) Close() { v.client.Close() }

// isGone is whether the API says, in its last answer, that what was named does not exist: a
// deletion that is repeated, as its first answer was lost, finds nothing to delete.
func isGone(err error) bool {
	e, ok := errors.AsType[*rest.Error](err)
	if !ok {
		return false
	}
	_, kind := classify("", e.Last())
	if kind == nil {
		kind = cloud.StatusKind(e.Last())
	}
	return kind == gputrain.ErrNotFound
}
