package scaleway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// The answers about quotas are asked for again after quotasFor.
const quotasFor = time.Minute

// A quotas keeps answers about quotas. The zero value is ready.
type quotas struct {
	mu    sync.Mutex
	asked time.Time
	org   string
	all   []quotum
	err   error
	used  map[string]int // servers by type and zone
}

// Quota returns how many more servers of an offer's type the organization may have: each type has
// a quota of its own. Servers that the key may not see are not counted.
func (d *scalewayDriver) Quota(ctx context.Context, offer driver.Offer) (driver.Quota, error) {
	zone, kind, _ := strings.Cut(offer.ID, "/")
	kind, _, _ = strings.Cut(kind, "/")
	if !zoneForm.MatchString(zone) || kind == "" {
		return driver.Quota{}, cloud.Fail(providerName, "quota", notAnOffer(offer.ID), classify)
	}
	d.quotas.mu.Lock()
	defer d.quotas.mu.Unlock()
	q, err := d.quotas.of(ctx, d.client, zone, kind)
	if err != nil {
		return driver.Quota{}, cloud.Fail(providerName, "quota", err, classify)
	}
	return q, nil
}

// of returns the least of the limits for a type in a zone.
func (q *quotas) of(ctx context.Context, c *client, zone, kind string) (least driver.Quota, err error) {
	if err := q.ask(ctx, c, zone); err != nil {
		return driver.Quota{}, err
	}
	name := "cp_servers_type_" + strings.ReplaceAll(kind, "-", "_")
	i := slices.IndexFunc(q.all, func(t quotum) bool { return strings.EqualFold(t.Name, name) })
	if i < 0 {
		return driver.Quota{}, nil
	}
	for _, l := range q.all[i].Limits {
		if l.Unlimited || l.Limit == nil || !l.covers(zone) {
			continue
		}
		used := 0
		for _, z := range zones {
			if !l.covers(z) {
				continue
			}
			n, err := q.count(ctx, c, z, kind)
			if err != nil {
				return driver.Quota{}, err
			}
			used += n
		}
		if left := max(*l.Limit-used, 0); !least.Known || left < least.Machines {
			least = driver.Quota{Known: true, Machines: left,
				Reason: fmt.Sprintf("%s in %s: %d servers, of which %d are used; a machine needs 1", name, cmp.Or(l.Zone, l.Region, "all zones"), *l.Limit, used)}
		}
	}
	return least, nil
}

// ask asks for the limits, unless it has done so in the last minute. A refusal is an answer, too.
func (q *quotas) ask(ctx context.Context, c *client, zone string) error {
	if q.asked.IsZero() || time.Since(q.asked) >= quotasFor {
		q.asked, q.used, q.all = time.Now(), map[string]int{}, nil
		if q.org, q.err = c.organization(ctx, zone); q.err == nil && q.org != "" {
			q.all, q.err = c.quotas(ctx, q.org)
		}
		if ctx.Err() != nil {
			q.asked = time.Time{} // the caller has given up: that is no answer
		}
	}
	return q.err
}

// covers reports whether a limit counts the servers of a zone.
func (l limit) covers(zone string) bool {
	return l.Global || zone == l.Zone || l.Region != "" && strings.HasPrefix(zone, l.Region+"-")
}

// count returns the servers of a type in a zone. One that the API does not know has none.
func (q *quotas) count(ctx context.Context, c *client, zone, kind string) (int, error) {
	key := zone + "/" + kind
	if n, ok := q.used[key]; ok {
		return n, nil
	}
	n, err := c.countServers(ctx, zone, q.org, kind)
	if err != nil && !isGone(err) {
		return 0, err
	}
	q.used[key] = n
	return n, nil
}
