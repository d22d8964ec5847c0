package container

import (
	"math"
	"strconv"
	"time"

	"github.com/gputrain/gputrain"
)

const (
	labelPool    = labelPrefix + "pool"
	labelOwner   = labelPrefix + "owner"
	labelCreated = labelPrefix + "created"
	labelLease   = labelPrefix + "lease" // seconds
	labelExpires = labelPrefix + "expires"
	labelRank    = labelPrefix + "rank"
	labelHostKey = labelPrefix + "hostkey"
)

// labelArgs are the labels of everything that is made for a pool, as of now.
func (d *driver) labelArgs(pool gputrain.PoolInfo, now time.Time) []string {
	var args []string
	add := func(name, value string) { args = append(args, "--label", name+"="+value) }
	add(labelPool, pool.ID)
	add(labelOwner, pool.Owner)
	add(labelCreated, now.UTC().Format(time.RFC3339))
	if pool.Lease > 0 {
		add(labelLease, strconv.FormatFloat(pool.Lease.Seconds(), 'f', -1, 64))
	}
	if !pool.Expires.IsZero() {
		add(labelExpires, pool.Expires.UTC().Format(time.RFC3339))
	}
	for _, k := range sortedKeys(d.cfg.Labels) {
		add(k, d.cfg.Labels[k])
	}
	return args
}

// labelFilter chooses by a pool's label, or by that of any pool.
func labelFilter(poolID string) string {
	if poolID == "" {
		return "label=" + labelPool
	}
	return "label=" + labelPool + "=" + poolID
}

// isOf reports whether labels are a pool's, or any pool's.
func isOf(poolID string, labels map[string]string) bool {
	pool, labelled := labels[labelPool]
	return labelled && (poolID == "" || pool == poolID)
}

// resource is what the labels say of what is held for a pool. A label that is
// missing, as older versions' are, or makes no sense, says nothing.
func resource(kind, id, name string, labels map[string]string) gputrain.Resource {
	moment := func(label string) time.Time {
		t, _ := time.Parse(time.RFC3339, labels[label])
		return t
	}
	r := gputrain.Resource{
		Provider: providerName, Kind: kind, ID: id, Name: name, HourlyUSD: gputrain.USD(0),
		Pool: labels[labelPool], Owner: labels[labelOwner],
		Created: moment(labelCreated), Expires: moment(labelExpires),
	}
	const most = float64(math.MaxInt64 / int64(time.Second))
	if lease, err := strconv.ParseFloat(labels[labelLease], 64); err == nil && lease > 0 && lease < most {
		r.Lease = time.Duration(lease * float64(time.Second))
	}
	return r
}
