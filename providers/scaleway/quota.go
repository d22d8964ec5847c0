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

// Quota returns how many more servers of an offer's type the organization may have. Its own
// quota bounds each type, by zone or in all. Servers that the key may not see are not counted.
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

func (q *quotas) of(ctx context.Context, c *client, zone, kind string) (driver.Quota, error) {
	if q.asked.IsZero() || time.Since(q.asked) >= quotasFor {
		q.asked, q.used, q.all = time.Now(), map[string]int{}, nil
		if q.org, q.err = c.organization(ctx, zone); q.err == nil && q.org != "" {
			q.all, q.err = c.quotas(ctx, q.org)
		}
		if ctx.Err() != nil {
			q.asked = time.Time{} // the caller has given up: that is no answer
		}
	}
	if q.err != nil {
		return driver.Quota{}, q.err
	}
	name := "cp_servers_type_" + strings.ReplaceAll(kind, "-", "_")
	i := slices.IndexFunc(q.all, func(t quotum) bool { return strings.EqualFold(t.Name, name) })
	if i < 0 {
		return driver.Quota{}, nil
	}
	var least driver.Quota
	for _, l := range q.all[i].Limits {
		where := l.Zone
		if l.Region != "" {
			where = l.Region
		}
		if !l.Global && zone != where && !strings.HasPrefix(zone, where+"-") || l.Unlimited || l.Limit == nil {
			continue
		}
		used := 0
		for _, z := range zones {
			if l.Global || z == where || strings.HasPrefix(z, where+"-") {
				n, err := q.count(ctx, c, z, kind)
				if err != nil {
					return driver.Quota{}, err
				}
				used += n
			}
		}
		if left := max(*l.Limit-used, 0); !least.Known || left < least.Machines {
			least = driver.Quota{Known: true, Machines: left,
				Reason: fmt.Sprintf("%s in %s: %d servers, of which %d are used; a machine needs 1", name, cmp.Or(where, "all zones"), *l.Limit, used)}
		}
	}
	return least, nil
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
