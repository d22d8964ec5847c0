package vultr

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// An api is Vultr's [cloud.API].
type api struct {
	cfg     Config //secretvet:ignore without the key
	client  *client
	account string

	mu        sync.Mutex
	countryOf map[string]string // by region; nil means not asked yet
}

// A vultrDriver can also record leases.
type vultrDriver struct {
	*cloud.Driver
	api *api
}

var _ driver.LeaseMarker = (*vultrDriver)(nil)

func (a *api) Close() { a.client.close() }

func (a *api) Classify(op string, err error) (hint string, kind error) { return classify(op, err) }

// Capabilities are facts, except two estimates: the lag of lists, and the time for which a
// create may still take effect after its caller has given up.
func (a *api) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Account:          a.account,
		LocalAddresses:   localnet.IsURL(a.cfg.Endpoint),
		ListLag:          10 * cloud.Second,
		LateEffect:       2 * time.Minute,
		EndsBilling:      "DELETE /instances/{id} and /bare-metals/{id}",
		Tags:             true,
		UserTags:         true,
		HostKeys:         driver.HostKeyInjected,
		ProvisionTimeout: a.cfg.ProvisionTimeout,
	}
}

// Prepare checks the user's tags. Nothing is made but machines: a node's keys are in its user data.
func (a *api) Prepare(_ context.Context, pool driver.PoolInfo) error {
	_, err := userTags(pool.Tags)
	return err
}

// Release deletes a pool's images that are not finished: nothing else is shared.
func (a *api) Release(ctx context.Context, pool driver.PoolInfo) error {
	return a.bakery().DeleteUnfinished(ctx, pool.ID)
}

// Shared lists the images that are not finished. A key that may not list snapshots has made none.
func (a *api) Shared(ctx context.Context, poolID string) ([]driver.Resource, error) {
	all, err := a.bakery().Unfinished(ctx, poolID)
	if poolID == "" && errors.Is(err, driver.ErrAuth) {
		return nil, nil
	}
	return all, err
}

// Create rents one machine.
func (a *api) Create(ctx context.Context, order cloud.Order) (string, error) {
	at, err := parsePlacement(order.Offer.ID)
	if err != nil {
		return "", err
	}
	tags, err := userTags(order.Pool.Tags)
	if err != nil {
		return "", err
	}
	text, err := cloud.UserData(order.Pool, order.Node, true, nil)
	if err != nil {
		return "", fmt.Errorf("%w: user data: %w", driver.ErrInvalid, err)
	}
	a.client.rest.Hide(string(order.Node.HostKey.Private))
	in := createRequest{
		Region: at.region, Plan: at.plan, Label: order.Name(), Hostname: order.Name(), Tags: append(order.Tag.Words(), tags...),
		UserData: base64.StdEncoding.EncodeToString([]byte(text)),
	}
	in.OSID, in.ImageID = a.cfg.image(at.mode)
	if order.Offer.Baked != "" {
		if err := a.startFrom(ctx, &in, order.Offer.Baked); err != nil {
			return "", err
		}
	}
	if at.mode == Cloud {
		in.Backups = "disabled"
	}
	m, err := a.client.create(ctx, at.mode, in)
	if err != nil {
		return "", err
	}
	return instanceID(at.mode, m.ID), nil
}

var tagForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// userTags returns a user's tags as words, "name-value", in the order of their names. Vultr does not document which
// characters a tag may have; letters, digits, dots, dashes and underscores are those that gputrain's own tags have.
func userTags(tags map[string]string) ([]string, error) {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		word := name + "-" + tags[name]
		if !tagForm.MatchString(word) || strings.HasPrefix(strings.ToLower(name), "gputrain") {
			return nil, fmt.Errorf("%w: the tag %q=%q: tags have letters, digits, dots, dashes and underscores, and do not begin with gputrain", driver.ErrInvalid, name, tags[name])
		}
		words = append(words, word)
	}
	return words, nil
}

// Balance returns the account's credit. It is known only if there is some: an account with a payment card has none and owes
// what it uses, which hinders no launch.
func (a *api) Balance(ctx context.Context, _ driver.Offer) (driver.Balance, error) {
	credit, err := a.client.credit(ctx)
	if err != nil || credit <= 0 {
		return driver.Balance{}, err
	}
	return driver.Balance{Known: true, USD: credit}, nil
}

// Machines reads both lists, whatever the mode: machines of the other mode are billed, too.
func (a *api) Machines(ctx context.Context, _ string) ([]cloud.Machine, error) {
	var all []cloud.Machine
	for _, mode := range []Mode{Cloud, BareMetal} {
		for m, err := range a.client.machines(ctx, mode) {
			if err != nil {
				return nil, err
			}
			all = append(all, m.instance(mode))
		}
	}
	return all, nil
}

// Machine returns one machine.
func (a *api) Machine(ctx context.Context, id string) (cloud.Machine, error) {
	mode, name := parseID(id)
	m, err := a.client.machine(ctx, mode, name)
	if err != nil {
		return cloud.Machine{}, err
	}
	return m.instance(mode), nil
}

// A server that is being installed may refuse to be destroyed: End makes endAttempts attempts,
// endPause times cloud.Second apart.
const (
	endAttempts = 12
	endPause    = 10
)

// End destroys a machine.
func (a *api) End(ctx context.Context, id string) error {
	mode, name := parseID(id)
	for n := 1; ; n++ {
		err := a.client.destroy(ctx, mode, name)
		if !installing(err) {
			return err
		}
		if n == endAttempts || !retry.Sleep(ctx, endPause*cloud.Second) {
			return &driver.Error{Kind: driver.ErrUnavailable, Err: err,
				Hint: "Vultr destroys no machine that is being installed: end it again in half an hour, which Reap does, too"}
		}
	}
}

// MarkLease records in the tags of machines until when the lease runs.
func (d *vultrDriver) MarkLease(ctx context.Context, pool driver.PoolInfo, until time.Time, ids ...string) error {
	var errs []error
	for _, id := range ids {
		if err := d.api.markLease(ctx, pool, until, id); err != nil {
			err = fmt.Errorf("%s: %w", id, err)
			errs = append(errs, cloud.Fail(providerName, "mark the lease", err, classify))
		}
	}
	return errors.Join(errs...)
}

// markLease replaces gputrain's tags of a machine. It skips a machine that is gone.
func (a *api) markLease(ctx context.Context, pool driver.PoolInfo, until time.Time, id string) error {
	mode, name := parseID(id)
	m, err := a.client.machine(ctx, mode, name)
	tag := pooltag.FromWords(m.Tags)
	if err == nil && tag.Pool == pool.ID { // else its tags were edited: leave it alone
		tag.Owner, tag.Lease, tag.Expires, tag.Until = pool.Owner, pool.Lease, pool.Expires, until
		others := slices.DeleteFunc(m.Tags, func(word string) bool {
			return word == "gputrain" || strings.HasPrefix(word, pooltag.Prefix)
		})
		err = a.client.retag(ctx, mode, name, append(others, tag.Words()...))
	}
	if _, kind := classify("", err); kind == driver.ErrNotFound {
		return nil
	}
	return err
}
