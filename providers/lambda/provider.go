package lambda

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	// The API's reads may lack a new machine for listLag seconds. A launch may still take
	// effect until lateEffect after its caller has given up. These are estimates; Lambda
	// documents neither.
	listLag    = 30
	lateEffect = time.Minute
	// provisionTimeout is well above the slowest boots that users report: 15 minutes, with
	// eight GPUs.
	provisionTimeout = 20 * time.Minute
)

// An api is Lambda Cloud's [cloud.API].
type api struct {
	cloud.OnlyKeys      // a launch names the pool's key
	client              *client
	account             string
	region, imageFamily string
	local               bool // the API's address is on this computer
	fileSystems         []string
}

var _ cloud.API = (*api)(nil)

// Capabilities returns the same for all machines.
func (a *api) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Account: a.account, ListLag: listLag * cloud.Second, LateEffect: lateEffect, EndsBilling: "terminate",
		LocalAddresses: a.local,
		Tags:           true, UserTags: true, HostKeys: driver.HostKeyInjected, ProvisionTimeout: provisionTimeout,
	}
}

// Prepare registers the pool's key. It refuses tags that a machine cannot have.
func (a *api) Prepare(ctx context.Context, pool driver.PoolInfo) error {
	if _, err := userTags(pool.Tags); err != nil {
		return err
	}
	return a.OnlyKeys.Prepare(ctx, pool)
}

// tagKey is the API's form of a tag's key.
var tagKey = regexp.MustCompile(`^[a-z][a-z0-9:-]{1,54}$`)

// userTags returns the user's own tags.
func userTags(tags map[string]string) (all []tag, err error) {
	var f cloud.Faults
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		f.Require(tagKey.MatchString(key), "the tag %q: Lambda's names have 2 to 55 lower-case letters, digits, dashes and colons, and begin with a letter", key)
		f.Require(len(tags[key]) <= 128, "the value of the tag %s has %d bytes; the maximum is 128", key, len(tags[key]))
		all = append(all, tag{key, tags[key]})
	}
	return all, f.Err()
}

// keysOf returns the account's keys.
func keysOf(c *client) cloud.OnlyKeys {
	return cloud.OnlyKeys{Keys: cloud.Keys{List: c.keys, Add: c.addKey, Delete: c.deleteKey, Gone: isGone}}
}

func isGone(err error) bool {
	_, kind := (*api)(nil).Classify("", err)
	return kind == driver.ErrNotFound
}

// Create launches a machine, with the account's name for the pool's key.
func (a *api) Create(ctx context.Context, order cloud.Order) (string, error) {
	region, product, err := place(order.Offer)
	if err != nil {
		return "", err
	}
	users, err := userTags(order.Pool.Tags)
	if err != nil {
		return "", err
	}
	key, err := a.Keys.Named(ctx, order.Pool)
	if err != nil {
		return "", err
	}
	userData, err := cloud.UserData(order.Pool, order.Node, false, nil)
	if err != nil {
		return "", err
	}
	a.client.rest.Hide(string(order.Node.HostKey.Private))
	in := launch{
		Region: region, Type: product, SSHKeys: []string{key.Name}, Name: order.Name(),
		FileSystems: a.fileSystems, UserData: userData,
	}
	if a.imageFamily != "" {
		in.Image = &image{a.imageFamily}
	}
	pairs := order.Tag.Pairs()
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		in.Tags = append(in.Tags, tag{k, pairs[k]})
	}
	in.Tags = append(in.Tags, users...)
	return a.client.launch(ctx, in)
}

// Machines returns all machines of the account: the API's list has no filter.
func (a *api) Machines(ctx context.Context, _ string) ([]cloud.Machine, error) {
	all, err := a.client.instances(ctx)
	return cloud.Each(all, machine), err
}

// Machine returns one machine.
func (a *api) Machine(ctx context.Context, id string) (cloud.Machine, error) {
	in, err := a.client.instance(ctx, id)
	return machine(in), err
}

// End terminates a machine. The answer lists the machines that the call has ended: a missing
// one must be ending already.
func (a *api) End(ctx context.Context, id string) error {
	ended, err := a.client.terminate(ctx, id)
	if err != nil || slices.ContainsFunc(ended, func(in instance) bool { return in.ID == id }) {
		return err
	}
	in, err := a.client.instance(ctx, id)
	if err == nil && in.Status == "preempted" {
		return &driver.Error{Kind: driver.ErrNotFound, Err: fmt.Errorf("%s is preempted; there is nothing to end", id)}
	}
	if err == nil && in.Status != "terminating" && in.Status != "terminated" {
		err = odd("%s is %s, but the API reports that it has ended nothing", id, in.Status)
	}
	return err
}

// Close closes connections.
func (a *api) Close() { a.client.close() }
