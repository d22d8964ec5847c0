package gcp

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// quotaFor is the time for which answers about quotas are used.
	quotaFor = time.Minute
	// allGPUs is the project's quota of GPUs of all kinds, in all regions, on demand and as spot.
	allGPUs = "GPUS_ALL_REGIONS"
)

// metricOf returns the metric of a region's quota of GPUs on demand; that of spot has "PREEMPTIBLE_"
// before it. It returns "" for GPUs that no quota of a region names.
func metricOf(a accelerators.Accelerator) string {
	name := a.Name
	switch {
	case name == "A100" && a.MemoryGiB > 40:
		name = "A100_80GB"
	case !strings.Contains(" T4 V100 P100 P4 L4 A100 H100 ", " "+name+" "):
		return ""
	}
	return "NVIDIA_" + name + "_GPUS"
}

// quotas are the project's bounds of GPUs, by region, and for all regions by "".
type quotas struct {
	api *client

	mu    sync.Mutex // held during requests
	known map[string]quotaSheet
}

// A quotaSheet has quotas by their metrics as they were told at a time.
type quotaSheet struct {
	quotas map[string]*computepb.Quota
	at     time.Time
}

// of returns how many more machines of an offer the project may have. The tightest bound counts.
func (q *quotas) of(ctx context.Context, o driver.Offer) (driver.Quota, error) {
	gpus, region := max(o.Accelerator.Count, 1), regionOf(o.Region)
	if o.Accelerator.IsZero() {
		return driver.Quota{}, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	here, err := q.sheet(ctx, region)
	if err != nil {
		return driver.Quota{}, err
	}
	everywhere, err := q.sheet(ctx, "")
	if err != nil {
		return driver.Quota{}, err
	}
	metric := metricOf(o.Accelerator)
	if spot := here["PREEMPTIBLE_"+metric]; o.Spot && spot.GetLimit() > 0 { // without one, spot machines count on demand
		metric = "PREEMPTIBLE_" + metric
	}
	least := driver.Quota{}
	for _, bound := range []struct {
		metric, place string
		quota         *computepb.Quota
	}{{metric, region, here[metric]}, {allGPUs, "the project", everywhere[allGPUs]}} {
		if bound.quota == nil {
			continue
		}
		n := int(math.Floor(max(bound.quota.GetLimit()-bound.quota.GetUsage(), 0) / gpus))
		if least.Known && least.Machines <= n {
			continue
		}
		least = driver.Quota{Known: true, Machines: n, Reason: fmt.Sprintf("%s in %s: %g GPUs, of which %g are used; a machine needs %g",
			bound.metric, bound.place, bound.quota.GetLimit(), bound.quota.GetUsage(), gpus)}
	}
	return least, nil
}

// sheet returns the quotas of a region, or those of the project for "".
func (q *quotas) sheet(ctx context.Context, region string) (map[string]*computepb.Quota, error) {
	if s, ok := q.known[region]; ok && time.Since(s.at) < quotaFor {
		return s.quotas, nil
	}
	ask := q.api.projectQuotas
	if region != "" {
		ask = func(ctx context.Context) ([]*computepb.Quota, error) {
			r, err := q.api.region(ctx, region)
			return r.GetQuotas(), err
		}
	}
	at := time.Now()
	all, err := ask(ctx)
	if err != nil {
		return nil, err
	}
	s := quotaSheet{quotas: map[string]*computepb.Quota{}, at: at}
	for _, quota := range all {
		s.quotas[quota.GetMetric()] = quota
	}
	q.known[region] = s
	return s.quotas, nil
}

// changed makes the next question ask again.
func (q *quotas) changed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.known)
}
