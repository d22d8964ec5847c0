package lambda

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	// listLag is how many seconds a machine may be missing from the API's reads, and
	// lateEffect how long a launch may still happen that nobody waits for any more. Lambda
	// says neither: these are estimates.
	listLag    = 30
	lateEffect = time.Minute
	// provisionTimeout is a good deal more than the slowest boots that were told of, 15
	// minutes with eight GPUs.
	provisionTimeout = 20 * time.Minute
)

// api is Lambda Cloud.
type api struct {
	cloud.OnlyKeys      // a launch names the pool's
	client              *client
	account             string
	region, imageFamily string
	local               bool // so is the API's address
	fileSystems         []string
}

var _ cloud.API = (*api)(nil)

// Capabilities are the same for all machines.
func (a *api) Capabilities() gputrain.Capabilities {
	return gputrain.Capabilities{
		Account: a.account, ListLag: listLag * cloud.Second, LateEffect: lateEffect, EndsBilling: "terminate",
		LocalAddresses: a.local,
		Tags:           true, HostKeys: gputrain.HostKeyInjected, ProvisionTimeout: provisionTimeout,
	}
}

// keysOf are the keys of the account.
func keysOf(c *client) cloud.OnlyKeys {
	return cloud.OnlyKeys{Keys: cloud.Keys{List: c.keys, Add: c.addKey, Delete: c.deleteKey, Gone: isGone}}
}

func isGone(err error) bool {
	_, kind := (*api)(nil).Classify("", err)
	return kind == gputrain.ErrNotFound
}

// Create launches a machine, with the name under which the account has the pool's key.
func (a *api) Create(ctx context.Context, order cloud.Order) (string, error) {
	region, product, err := place(order.Offer)
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
	return a.client.launch(ctx, in)
}

// Machines returns all machines of the account: the API's list knows no filter.
func (a *api) Machines(ctx context.Context, _ string) ([]cloud.Machine, error) {
	all, err := a.client.instances(ctx)
	return cloud.Each(all, machine), err
}

// Machine returns one machine.
func (a *api) Machine(ctx context.Context, id string) (cloud.Machine, error) {
	in, err := a.client.instance(ctx, id)
	return machine(in), err
}

// End terminates a machine. The answer lists what was ended by it: one that is not among
// those must be on its way already.
func (a *api) End(ctx context.Context, id string) error {
	ended, err := a.client.terminate(ctx, id)
	if err != nil || slices.ContainsFunc(ended, func(in instance) bool { return in.ID == id }) {
		return err
	}
	in, err := a.client.instance(ctx, id)
	if err == nil && in.Status == "preempted" {
		return &gputrain.Error{Kind: gputrain.ErrNotFound, Err: fmt.Errorf("%s is preempted, and there is nothing to end", id)}
	}
	if err == nil && in.Status != "terminating" && in.Status != "terminated" {
		err = odd("%s is %s, and the API says that it has ended nothing", id, in.Status)
	}
	return err
}

// Close gives back connections.
func (a *api) Close() { a.client.close() }
