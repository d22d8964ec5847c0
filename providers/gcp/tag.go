package gcp

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
)

// Labels are what lists are filtered by, and what can be changed later. They hold little:
// what else there is to say of a machine is the tag in its metadata.
const (
	labelManaged = "gputrain-managed"
	labelPool    = "gputrain-run"
	labelRank    = "gputrain-node"
	labelExpires = "gputrain-expires" // Unix time
	labelUntil   = "gputrain-until"   // Unix time: Resource.LeaseUntil
	labelLease   = "gputrain-lease"   // seconds; disks have no metadata

	// tagKey is the key of the metadata that holds the tag.
	tagKey = "gputrain"
)

// A tag is what is put down with a machine or a firewall rule of what it was made for, as
// JSON: in a machine's metadata and in a rule's description, as rules have no labels. It
// never changes. Times are Unix time.
type tag struct {
	Pool    string `json:"pool"`
	Owner   string `json:"owner,omitempty"`
	Lease   int64  `json:"lease,omitempty"` // seconds
	Expires int64  `json:"expires,omitempty"`
	Created int64  `json:"created"`

	// What follows only machines have.
	Rank   int                      `json:"rank,omitempty"`
	Type   string                   `json:"type,omitempty"`
	GPU    accelerators.Accelerator `json:"gpu,omitzero"`
	Arch   string                   `json:"arch,omitempty"`
	VCPUs  float64                  `json:"vcpus,omitempty"`
	Memory float64                  `json:"gib,omitempty"`
	Disk   float64                  `json:"disk_gib,omitempty"`
	USD    *float64                 `json:"usd,omitempty"` // an hour
	Spot   bool                     `json:"spot,omitempty"`
}

var poolForm = regexp.MustCompile(`^[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?$`)

func checkPool(id string) error {
	if !poolForm.MatchString(id) {
		return fmt.Errorf("%w: %q is not the ID of a pool", gputrain.ErrInvalid, id)
	}
	return nil
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func fromUnix(n int64) time.Time {
	if n <= 0 {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

func tagOf(pool gputrain.PoolInfo, now time.Time) tag {
	return tag{Pool: pool.ID, Owner: pool.Owner, Lease: int64(math.Ceil(pool.Lease.Seconds())), Expires: unix(pool.Expires), Created: now.Unix()}
}

// machine returns the tag of a machine.
func (t tag) machine(rank int, o gputrain.Offer) tag {
	t.Rank, t.Type, t.GPU, t.Arch, t.VCPUs, t.Memory, t.Disk, t.Spot = rank, o.InstanceType, o.Accelerator, o.Arch, o.VCPUs, o.MemoryGiB, o.DiskGiB, o.Spot
	if usd, known := o.HourlyUSD.USD(); known {
		t.USD = &usd
	}
	return t
}

// offer returns what was rented.
func (t tag) offer(zone string) gputrain.Offer {
	return gputrain.Offer{
		Provider: providerName, ID: offerID(zone, t.Type, t.Spot), InstanceType: t.Type, Region: zone, Arch: t.Arch,
		Accelerator: t.GPU, VCPUs: t.VCPUs, MemoryGiB: t.Memory, DiskGiB: t.Disk, HourlyUSD: t.price(), Spot: t.Spot,
	}
}

func (t tag) price() gputrain.Price {
	if t.USD == nil {
		return gputrain.Price{}
	}
	return gputrain.USD(*t.USD)
}

func (t tag) String() string {
	text, err := json.Marshal(t)
	if err != nil { // a price or an amount that is no number
		t.USD, t.GPU, t.VCPUs, t.Memory, t.Disk = nil, accelerators.Accelerator{}, 0, 0, 0
		text, _ = json.Marshal(t)
	}
	return string(text)
}

// parseTag reads a tag, and reports whether it is one of gputrain's.
func parseTag(text string) (t tag, ok bool) {
	if json.Unmarshal([]byte(text), &t) != nil || !poolForm.MatchString(t.Pool) {
		return tag{}, false
	}
	return t, true
}

// resource is what a tag says of what is held for a pool.
func (t tag) resource(kind, id, name, place string) gputrain.Resource {
	return gputrain.Resource{
		Provider: providerName, Kind: kind, ID: id, Name: name, Region: place, HourlyUSD: gputrain.USD(0),
		Pool: t.Pool, Owner: t.Owner, Created: fromUnix(t.Created), Lease: time.Duration(t.Lease) * time.Second, Expires: fromUnix(t.Expires),
	}
}

// labels are those of a machine and its disk.
func (t tag) labels() map[string]string {
	labels := map[string]string{labelManaged: "true", labelPool: t.Pool, labelRank: strconv.Itoa(t.Rank)}
	if t.Expires > 0 {
		labels[labelExpires] = strconv.FormatInt(t.Expires, 10)
	}
	if t.Lease > 0 {
		labels[labelLease] = strconv.FormatInt(t.Lease, 10)
	}
	return labels
}

// labelTime reads a label with a time.
func labelTime(labels map[string]string, name string) time.Time {
	n, err := strconv.ParseInt(labels[name], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return fromUnix(n)
}
