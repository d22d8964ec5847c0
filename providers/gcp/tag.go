package gcp

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// Lists are filtered by labels, and labels can be changed later. They hold little. The tag in
// its metadata has all other facts about a machine.
const (
	labelManaged = "gputrain-managed" // "true"
	labelPool    = "gputrain-run"
	labelUntil   = "gputrain-until" // Unix time: Resource.LeaseUntil
	labelLease   = "gputrain-lease" // seconds; disks have no metadata

	// tagKey is the key of the metadata that holds the tag.
	tagKey = "gputrain"
)

// labelForm are the labels of a machine and its disk, beside labelManaged.
var labelForm = pooltag.Form{Keys: []pooltag.Key{
	{Field: pooltag.Pool, Name: labelPool}, {Field: pooltag.Rank, Name: "gputrain-node"}, {Field: pooltag.Expires, Name: "gputrain-expires"},
	{Field: pooltag.Lease, Name: labelLease}, {Field: pooltag.Until, Name: labelUntil},
}}

// labelsOf returns the labels of a machine and its disk.
func labelsOf(t pooltag.Tag) map[string]string {
	labels := labelForm.Map(t)
	labels[labelManaged] = "true"
	return labels
}

const (
	// mostLabels is the number of labels that Google allows a thing to have, and mostUserLabels
	// what those of this package leave.
	mostLabels, mostUserLabels = 64, 54
)

var (
	labelKeyForm   = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	labelValueForm = regexp.MustCompile(`^[a-z0-9_-]{0,63}$`)
)

// checkTags refuses user's tags that are no labels.
func checkTags(tags map[string]string) error {
	if n := len(tags); n > mostUserLabels {
		return fmt.Errorf("%w: there are %d tags; Google allows %d labels, of which gputrain needs %d", driver.ErrInvalid, n, mostLabels, mostLabels-mostUserLabels)
	}
	for key, value := range tags {
		switch {
		case key == tagKey, strings.HasPrefix(key, "gputrain-"), strings.HasPrefix(key, "goog"):
			return fmt.Errorf("%w: the tag %q is reserved: no name may begin with gputrain- or goog", driver.ErrInvalid, key)
		case !labelKeyForm.MatchString(key), !labelValueForm.MatchString(value):
			return fmt.Errorf("%w: Google takes no label %q=%q: use lower-case letters, digits, _ and -, at most 63 each, and begin a key with a letter", driver.ErrInvalid, key, value)
		}
	}
	return nil
}

// fromLabels reads labels. The tag is empty if they are not gputrain's.
func fromLabels(labels map[string]string) pooltag.Tag {
	t := labelForm.ReadMap(labels)
	if labels[labelManaged] == "" || checkPool(t.Pool) != nil {
		return pooltag.Tag{}
	}
	return t
}

// A tag identifies the pool of a machine, a firewall rule or an image, as JSON: in a machine's metadata,
// and in the description of a rule, as rules have no labels, and of an image. It never changes. Times are Unix time.
type tag struct {
	Pool    string `json:"pool"`
	Owner   string `json:"owner,omitempty"`
	Lease   int64  `json:"lease,omitempty"` // seconds
	Expires int64  `json:"expires,omitempty"`
	Created int64  `json:"created"`

	// Only machines have the following.
	Rank   int                      `json:"rank,omitempty"`
	Type   string                   `json:"type,omitempty"`
	GPU    accelerators.Accelerator `json:"gpu,omitzero"`
	Arch   string                   `json:"arch,omitempty"`
	VCPUs  float64                  `json:"vcpus,omitempty"`
	Memory float64                  `json:"gib,omitempty"`
	Disk   float64                  `json:"disk_gib,omitempty"`
	USD    *float64                 `json:"usd,omitempty"` // an hour
	Spot   bool                     `json:"spot,omitempty"`
	Parts  []driver.PricePart       `json:"parts,omitempty"` // of the price, if there are several

	// Only images have the following.
	Base string `json:"base,omitempty"`
	Key  string `json:"key,omitempty"`
}

// checkPool refuses an invalid ID of a pool. No name in the cloud may end in a dash.
func checkPool(id string) error {
	if strings.HasSuffix(id, "-") {
		return fmt.Errorf("%w: the ID of pool %q ends in a dash", driver.ErrInvalid, id)
	}
	return pooltag.CheckPool(id)
}

func tagOf(t pooltag.Tag) tag {
	out := tag{Pool: t.Pool, Owner: t.Owner, Lease: int64(math.Ceil(t.Lease.Seconds())), Created: t.Created.Unix(), Rank: t.Rank}
	if !t.Expires.IsZero() {
		out.Expires = t.Expires.Unix()
	}
	return out
}

// machine returns the tag of a machine that was rented by an offer.
func (t tag) machine(o driver.Offer) tag {
	t.Type, t.GPU, t.Arch, t.VCPUs, t.Memory, t.Disk, t.Spot = o.InstanceType, o.Accelerator, o.Arch, o.VCPUs, o.MemoryGiB, o.DiskGiB, o.Spot
	if usd, known := o.HourlyUSD.USD(); known {
		t.USD, t.Parts = &usd, o.Parts
	}
	return t
}

// offer returns the offer that the machine was rented by.
func (t tag) offer(zone string) driver.Offer {
	return driver.Offer{
		Provider: providerName, ID: offerID(zone, t.Type, t.Spot), InstanceType: t.Type, Region: zone, Country: countryOf(regionOf(zone)), Arch: t.Arch,
		Accelerator: t.GPU, VCPUs: t.VCPUs, MemoryGiB: t.Memory, DiskGiB: t.Disk, HourlyUSD: t.price(), Parts: t.Parts, Spot: t.Spot,
	}
}

func (t tag) price() driver.Price {
	if t.USD == nil {
		return driver.Price{}
	}
	return driver.USD(*t.USD)
}

func (t tag) String() string {
	text, err := json.Marshal(t)
	if err != nil { // a price or an amount that is not a number
		t.USD, t.Parts, t.GPU, t.VCPUs, t.Memory, t.Disk = nil, nil, accelerators.Accelerator{}, 0, 0, 0
		text, _ = json.Marshal(t)
	}
	return string(text)
}

// parseTag reads a tag. ok is false if it is not gputrain's.
func parseTag(text string) (t tag, ok bool) {
	if json.Unmarshal([]byte(text), &t) != nil || checkPool(t.Pool) != nil {
		return tag{}, false
	}
	return t, true
}

// resource describes a thing of a pool that costs nothing, by its tag.
func (t tag) resource(kind, id, name, place string) driver.Resource {
	r := pooltag.Tag{
		Pool: t.Pool, Owner: t.Owner, Lease: time.Duration(t.Lease) * time.Second, Created: fromUnix(t.Created), Expires: fromUnix(t.Expires),
	}.Resource(providerName, kind, id)
	r.Name, r.Region, r.HourlyUSD = name, place, driver.USD(0)
	return r
}

// doubt returns why an instance with this tag may be a stranger's: see pooltag.Tag.Doubt. Its name has its rank.
func (t tag) doubt(name string, made time.Time) string {
	if t.Created == 0 {
		return "its labels are of pool " + t.Pool + ", and its metadata are not"
	}
	if _, _, rank, ours := pooltag.ParseName(pooltag.Prefix + name); ours && rank != t.Rank {
		return fmt.Sprintf("its name is %s, and its tag has rank %d", name, t.Rank)
	}
	return pooltag.Tag{Pool: t.Pool, Name: name, Created: fromUnix(t.Created)}.Doubt("", made)
}

func fromUnix(n int64) time.Time {
	if n <= 0 {
		return time.Time{}
	}
	return time.Unix(n, 0)
}
