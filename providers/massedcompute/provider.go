package massedcompute

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	// listLag is how many seconds a machine may be missing from the API's reads: a client
	// that ships waits for so long. lateEffect is how long a launch may still happen that
	// nobody waits for any more, which nobody tells: it is an estimate.
	listLag          = 60
	lateEffect       = time.Minute
	provisionTimeout = 20 * time.Minute
)

// api is Massed Compute.
type api struct {
	cloud.OnlyKeys  // a launch names the pool's
	client          *client
	account         string
	image           int
	local           bool // so is the API's address
	coupon, command string
}

var _ cloud.API = (*api)(nil)

// Capabilities are the same for all machines.
func (a *api) Capabilities() gputrain.Capabilities {
	return gputrain.Capabilities{
		Account: a.account, ListLag: listLag * cloud.Second, LateEffect: lateEffect, EndsBilling: "terminate",
		LocalAddresses: a.local,
		Spot:           true, HostKeys: gputrain.HostKeyFirstContact, ProvisionTimeout: provisionTimeout,
	}
}

// keysOf are the keys of the account.
func keysOf(c *client) cloud.OnlyKeys {
	return cloud.OnlyKeys{Keys: cloud.Keys{
		List: c.keys, Add: c.addKey, Delete: c.deleteKey, Name: keyName, Pool: keyPool,
		Gone: func(err error) bool {
			_, kind := (*api)(nil).Classify("release", err)
			return kind == nil && cloud.StatusKind(err) == gputrain.ErrNotFound
		},
	}}
}

// keyPrefix and keyForm: the names of keys have letters and digits only. X stands for a
// dash, which no pool's ID can have itself.
const keyPrefix = "gputrainXpoolX"

var keyForm = regexp.MustCompile(`^` + keyPrefix + `([a-z][a-z0-9X]{0,39})$`)

func keyName(poolID string) string { return keyPrefix + strings.ReplaceAll(poolID, "-", "X") }

func keyPool(name string) (poolID string, ok bool) {
	m := keyForm.FindStringSubmatch(name)
	if m == nil {
		return "", false
	}
	return strings.ReplaceAll(m[1], "X", "-"), true
}

// Create launches a machine, with the name under which the account has the pool's key.
func (a *api) Create(ctx context.Context, order cloud.Order) (string, error) {
	if !isProduct(order.Offer.ID) {
		return "", fmt.Errorf("%w: %q is not the ID of an offer of Massed Compute's", gputrain.ErrInvalid, order.Offer.ID)
	}
	key, err := a.Keys.Named(ctx, order.Pool)
	if err != nil {
		return "", err
	}
	return a.client.launch(ctx, launch{
		ImageID: a.image, Product: order.Offer.ID, Region: anywhere, Name: order.Name(),
		SSHKeys: []string{key.Name}, Coupon: a.coupon, Command: a.command,
	})
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

// End terminates a machine.
func (a *api) End(ctx context.Context, id string) error { return a.client.terminate(ctx, id) }

// Close gives back connections.
func (a *api) Close() { a.client.close() }
