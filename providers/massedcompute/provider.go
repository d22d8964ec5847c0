package massedcompute

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	// The API's reads may lack a new machine for listLag seconds: a shipping client waits that
	// long. A launch may still take effect until lateEffect after its caller has given up. That
	// is an estimate; it is not documented.
	listLag          = 60
	lateEffect       = time.Minute
	provisionTimeout = 20 * time.Minute
	// maxName bounds the length of a machine's name. The API's own limit is not published.
	maxName = 40
)

// An api is Massed Compute's [cloud.API].
type api struct {
	cloud.OnlyKeys  // a launch names the pool's key
	client          *client
	account         string
	image           int
	local           bool // the API's address is on this computer
	coupon, command string
}

var _ cloud.API = (*api)(nil)

// Capabilities returns the same for all machines.
func (a *api) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Account: a.account, ListLag: listLag * cloud.Second, LateEffect: lateEffect, EndsBilling: "terminate",
		LocalAddresses: a.local,
		Spot:           true, HostKeys: driver.HostKeyFirstContact, ProvisionTimeout: provisionTimeout,
	}
}

// keysOf returns the account's keys.
func keysOf(c *client) cloud.OnlyKeys {
	return cloud.OnlyKeys{Keys: cloud.Keys{
		List: c.keys, Add: c.addKey, Delete: c.deleteKey, Name: keyName, Pool: keyPool,
		Gone: func(err error) bool {
			_, kind := (*api)(nil).Classify("release", err)
			return kind == nil && cloud.StatusKind(err) == driver.ErrNotFound
		},
	}}
}

// The names of keys have letters and digits only, in keyPrefix and keyForm. X stands for a
// dash, as no pool's ID contains it.
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

// Create launches a machine, with the account's name for the pool's key.
func (a *api) Create(ctx context.Context, order cloud.Order) (string, error) {
	if !isProduct(order.Offer.ID) {
		return "", fmt.Errorf("%w: %q is not the ID of a Massed Compute offer", driver.ErrInvalid, order.Offer.ID)
	}
	key, err := a.Keys.Named(ctx, order.Pool)
	if err != nil {
		return "", err
	}
	return a.client.launch(ctx, launch{
		ImageID: a.image, Product: order.Offer.ID, Region: anywhere, Name: order.Tag.LongName(maxName),
		SSHKeys: []string{key.Name}, Coupon: a.coupon, Command: a.command,
	})
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

// End terminates a machine.
func (a *api) End(ctx context.Context, id string) error { return a.client.terminate(ctx, id) }

// Close closes connections.
func (a *api) Close() { a.client.close() }
