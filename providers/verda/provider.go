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

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

const (
	// maxHostname bounds the length of a host name.
	maxHostname = 60
	// maxImages bounds the images that are tried for a machine that refuses them.
	maxImages = 3
	// A machine that is being provisioned cannot be deleted; an end waits endWait seconds for
	// it.
	endWait = 120
)

// A verda is the API with what a driver has learnt of it, which saves calls.
type verda struct {
	client *client
	cfg    Config //secretvet:ignore without the secret

	mu        sync.Mutex
	images    map[string][]string // by type of machine
	keyIDs    map[string]string   // by pool and key
	ended     map[string]bool     // machines that this driver has deleted
	disks     map[string]string   // names of the system volumes of machines that this driver has made
	countries map[string]string   // of locations, by their codes
}

// Capabilities describes what Verda can do. The lags of its lists and effects are estimates.
func (v *verda) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Account:          "client " + v.cfg.ClientID,
		LocalAddresses:   localnet.IsURL(v.cfg.Endpoint),
		ListLag:          15 * cloud.Second,
		LateEffect:       v.cfg.RequestTimeout + 30*time.Second,
		Spot:             true,
		EndsBilling:      "delete",
		DiskResizable:    true,
		Tags:             true,
		UserTags:         true,
		HostKeys:         driver.HostKeyFirstContact,
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

// Prepare registers the pool's SSH key. It refuses if the prepaid balance is used up, and tags
// that a machine cannot have.
func (v *verda) Prepare(ctx context.Context, pool driver.PoolInfo) error {
	if _, err := userTags(pool.Tags); err != nil {
		return err
	}
	switch balance, _, err := v.client.balance(ctx); {
	case err != nil:
		return err
	case balance <= 0:
		return &driver.Error{Kind: driver.ErrBalance, Err: errors.New("the balance is used up"), Hint: fundsHint}
	}
	key, err := v.keys().Prepare(ctx, pool)
	if err == nil {
		v.rememberKey(pool, key.ID)
	}
	return err
}

// Release removes the key, and the volumes that the pool's machines have left behind.
func (v *verda) Release(ctx context.Context, pool driver.PoolInfo) error {
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

func (v *verda) rememberKey(pool driver.PoolInfo, id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keyIDs[pool.ID+" "+pool.AuthorizedKey] = id
}

// keyID returns the pool's SSH key, which another driver may have registered.
func (v *verda) keyID(ctx context.Context, pool driver.PoolInfo) (string, error) {
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
		return "", fmt.Errorf("%w: the pool's SSH key is not in the project: Prepare registers it", driver.ErrInvalid)
	}
	v.rememberKey(pool, key.ID)
	return key.ID, nil
}

// Create rents a machine. The API refuses an unsuitable image before it makes anything.
func (v *verda) Create(ctx context.Context, o cloud.Order) (id string, err error) {
	location, instanceType, spot, err := parseOffer(o.Offer.ID)
	if err != nil {
		return "", err
	}
	users, err := userTags(o.Pool.Tags)
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
	tags := append(tagList(o.Tag), users...)
	in := order{
		InstanceType: instanceType, Location: location, SSHKeyIDs: []string{key}, Contract: "PAY_AS_YOU_GO", IsSpot: spot,
		Hostname: hostname(o.Name()), Description: o.Name(), Tags: tags,
		OSVolume: osVolume{Name: o.Name() + osSuffix, GB: diskGB(o.Spec), Tags: tags},
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
	if id != "" {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.disks[id] = in.OSVolume.Name
	}
	return id, err
}

// hostname returns a machine's name, cut to the allowed length.
func hostname(name string) string { return strings.TrimRight(name[:min(len(name), maxHostname)], "-") }

func tagList(t pooltag.Tag) []tag {
	pairs := t.Pairs()
	var tags []tag
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		tags = append(tags, tag{Key: key, Value: pairs[key]})
	}
	return tags
}

// maxUserTags are the tags that a machine has room for: it has ten, and gputrain's own, with the
// two of a lease, are eight.
const maxUserTags = 2

// userTags returns the user's own tags. A query for a tag separates key and value by an equals
// sign.
func userTags(tags map[string]string) (all []tag, err error) {
	var f cloud.Faults
	f.Require(len(tags) <= maxUserTags, "there are %d tags: a machine of Verda's has room for %d", len(tags), maxUserTags)
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		f.Require(key != "" && len(key) <= 63 && !strings.Contains(key, "="), "the tag %q: a name has 1 to 63 bytes without an equals sign", key)
		f.Require(len(tags[key]) <= 127, "the value of the tag %q has %d bytes; the maximum is 127", key, len(tags[key]))
		all = append(all, tag{Key: key, Value: tags[key]})
	}
	return all, f.Err()
}

// Machines returns all machines of the project: the API's filter by tags may be incomplete.
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

// machine translates the API's report of an instance. It ignores the reported price, which may
// be for one GPU or for all.
func (v *verda) machine(in instance) cloud.Machine {
	v.mu.Lock()
	ended, country := v.ended[in.ID], v.countries[in.Location]
	v.mu.Unlock()
	m := cloud.Machine{Tag: ownerOf(in)}
	m.Doubt = m.Tag.Doubt(in.Description, moment(in.CreatedAt))
	if m.Doubt == "" && m.Tag.Pool != "" && in.Hostname != hostname(pooltag.Prefix+m.Tag.Name) {
		m.Doubt = m.Tag.Doubt(in.Hostname, time.Time{})
	}
	m.ID, m.PublicAddr = in.ID, in.IP
	m.State, m.StateReason = stateOf(in, ended)
	m.Offer = in.hardware.offer()
	m.Offer.ID, m.Offer.Region, m.Offer.Spot = offerID(in.Location, in.InstanceType, in.IsSpot), in.Location, in.IsSpot
	m.Offer.Country = country
	if in.IP != "" {
		m.SSH = driver.Endpoint{Addr: net.JoinHostPort(in.IP, "22"), User: "root"}
	}
	return m
}

// ownerOf returns the owner of a machine: by its tags or, if they are gone, by its description.
func ownerOf(in instance) pooltag.Tag {
	t := readTags(in.Tags)
	if t.Pool == "" && in.Hostname == hostname(in.Description) {
		t = pooltag.FromName(in.Description)
		t.Created = moment(in.CreatedAt)
	}
	return t
}

// End deletes a machine and its system volume. Volumes that a user attached are detached, not deleted. A machine that the
// API does not show may be too new for that, and is deleted by its ID alone.
func (v *verda) End(ctx context.Context, id string) error {
	in, err := v.client.instance(ctx, id)
	hidden := isGone(err)
	if hidden {
		in.OSVolumeID, err = v.diskOf(ctx, id)
	}
	if err != nil {
		return err
	}
	var missing error // the API's answer for a machine that it does not find
	gone := in.Status == "discontinued"
	if !gone {
		if err = v.delete(ctx, id, in.OSVolumeID); isGone(err) {
			gone, missing, err = true, err, nil
		}
	}
	if (gone || hidden) && err == nil && in.OSVolumeID != "" { // the volume may have outlived its machine
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

// diskOf returns the ID of the system volume of a machine that this driver has made and the API does not show, or "" if
// there is none, or another program has made the machine: its Release finds the volume by its tags.
func (v *verda) diskOf(ctx context.Context, id string) (string, error) {
	v.mu.Lock()
	name := v.disks[id]
	v.mu.Unlock()
	if name == "" {
		return "", nil
	}
	all, err := v.client.volumes(ctx)
	for _, vol := range all {
		if vol.Name == name && !vol.Deleted {
			return vol.ID, err
		}
	}
	return "", nil // that must not keep the machine alive
}

// delete deletes a machine and names its system volume, which otherwise stays and is billed. A
// machine that is being provisioned cannot be deleted yet.
func (v *verda) delete(ctx context.Context, id, volume string) error {
	until := time.Now().Add(endWait * cloud.Second)
	for wait := cloud.Second; ; wait = min(2*wait, 10*cloud.Second) {
		err := v.client.end(ctx, id, volume)
		switch {
		case volume != "" && says(err, "volume"): // a missing volume must not keep the machine alive
			volume = ""
			continue
		case !says(err, "can't discontinue a provisioning") || time.Now().After(until):
			return err
		case !retry.Sleep(ctx, wait):
			return fmt.Errorf("%w; %w", err, context.Cause(ctx))
		}
	}
}

// Classify returns the kind of a failure by the API's text, and a hint.
func (v *verda) Classify(op string, err error) (hint string, kind error) { return classify(op, err) }

// Close closes connections.
func (v *verda) Close() { v.client.Close() }

// isGone reports whether the API's last answer means that the thing does not exist: a deletion
// that is repeated because its first answer was lost finds nothing to delete.
func isGone(err error) bool {
	e, ok := errors.AsType[*rest.Error](err)
	if !ok {
		return false
	}
	_, kind := classify("", e.Last())
	if kind == nil {
		kind = cloud.StatusKind(e.Last())
	}
	return kind == driver.ErrNotFound
}
