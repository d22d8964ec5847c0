package aws

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// Every thing of a pool gets these tags, in the call that makes it.
const (
	tagManaged = "gputrain:managed" // "true"
	tagPool    = "gputrain:pool"
	tagOwner   = "gputrain:owner"
	tagLease   = "gputrain:lease" // seconds
	tagExpires = "gputrain:expires"

	// Only machines have these.
	tagNode        = "gputrain:node" // its name
	tagRank        = "gputrain:rank"
	tagUSD         = "gputrain:usd" // an hour
	tagAccelerator = "gputrain:accelerator"
	tagHostKey     = "gputrain:host-key" // the public one
	tagUser        = "gputrain:user"     // the user to log in as
	tagUntil       = "gputrain:lease-until"
)

// tagForm are the tags that identify the owner. EC2 allows such values in every tag.
var tagForm = pooltag.Form{
	Keys: []pooltag.Key{
		{Field: pooltag.Managed, Name: tagManaged}, {Field: pooltag.Pool, Name: tagPool}, {Field: pooltag.Owner, Name: tagOwner},
		{Field: pooltag.Lease, Name: tagLease}, {Field: pooltag.Expires, Name: tagExpires},
		{Field: pooltag.Node, Name: tagNode}, {Field: pooltag.Rank, Name: tagRank}, {Field: pooltag.Until, Name: tagUntil},
	},
	RFC3339: true,
	Allowed: regexp.MustCompile(`^[\pL\pN\s_.:/=+@-]{0,256}$`),
}

// A tagList is a list of tags, in the order in which they are sent.
type tagList []types.Tag

// add adds a tag, unless it is empty or not allowed.
func (l *tagList) add(key, value string) {
	if value != "" && tagForm.Allowed.MatchString(value) {
		*l = append(*l, types.Tag{Key: &key, Value: &value})
	}
}

// poolTags returns the tags of a thing that a pool shares, under a name.
func poolTags(pool driver.PoolInfo, name string) tagList {
	return tagsOf(pooltag.Of(pool, time.Time{}), name)
}

func tagsOf(t pooltag.Tag, name string) tagList {
	l := tagList{}
	l.add("Name", name)
	for _, p := range tagForm.Pairs(t) {
		l.add(p.Key, p.Value)
	}
	return l
}

// nodeTags returns the tags of a machine and of its disk.
func nodeTags(req driver.Launch, node driver.NodeRequest) tagList {
	t := pooltag.OfNode(req.Pool, node, time.Time{})
	l := tagsOf(t, node.Name)
	if usd, known := req.Offer.HourlyUSD.USD(); known {
		l.add(tagUSD, strconv.FormatFloat(usd, 'f', -1, 64))
	}
	if !req.Offer.Accelerator.IsZero() {
		l.add(tagAccelerator, req.Offer.Accelerator.String())
	}
	l.add(tagHostKey, t.HostKey)
	for _, key := range slices.Sorted(maps.Keys(req.Pool.Tags)) {
		value := req.Pool.Tags[key]
		l = append(l, types.Tag{Key: &key, Value: &value})
	}
	return l
}

const (
	// mostTags is the number of tags that EC2 allows a thing to have, and mostUserTags what those
	// of this package leave.
	mostTags, mostUserTags = 50, 35
)

var userTagForm = regexp.MustCompile(`^[\pL\pN\s_.:/=+@-]{1,128}$`)

// checkPool refuses an invalid ID of a pool, and user's tags that EC2 would refuse.
func checkPool(pool driver.PoolInfo) error {
	if err := pooltag.CheckPool(pool.ID); err != nil {
		return err
	}
	if n := len(pool.Tags); n > mostUserTags {
		return fmt.Errorf("%w: there are %d tags; EC2 allows %d on a machine, of which gputrain needs %d", driver.ErrInvalid, n, mostTags, mostTags-mostUserTags)
	}
	for key, value := range pool.Tags {
		lower := strings.ToLower(key)
		switch {
		case strings.HasPrefix(lower, "aws:"), strings.HasPrefix(lower, "gputrain:"), key == "Name":
			return fmt.Errorf("%w: the tag %q is reserved: no name may begin with aws: or gputrain:, or be Name", driver.ErrInvalid, key)
		case !userTagForm.MatchString(key), !tagForm.Allowed.MatchString(value):
			return fmt.Errorf("%w: EC2 takes no tag %q=%q: use letters, digits, spaces and _.:/=+-@, at most 128 in a key and 256 in a value", driver.ErrInvalid, key, value)
		}
	}
	return nil
}

// specifications returns the tags in the form that a create takes.
func (l tagList) specifications(kinds ...types.ResourceType) []types.TagSpecification {
	var all []types.TagSpecification
	for _, k := range kinds {
		all = append(all, types.TagSpecification{ResourceType: k, Tags: l})
	}
	return all
}

// value returns the value of a tag, or "".
func (l tagList) value(key string) string {
	for _, t := range l {
		if sdk.ToString(t.Key) == key {
			return sdk.ToString(t.Value)
		}
	}
	return ""
}

// tag returns the meaning of the tags, which is empty if they are not a pool's.
func (l tagList) tag() pooltag.Tag { return tagForm.Read(l.value) }

// pool returns the pool that owns the thing, or "".
func (l tagList) pool() string { return l.tag().Pool }

// resource describes a thing of a pool by its tags.
func (l tagList) resource(kind, id, name, region string) driver.Resource {
	r := l.tag().Resource(providerName, kind, id)
	r.Name, r.Region = cmp.Or(name, l.value("Name")), region
	return r
}

func (l tagList) price() driver.Price {
	usd, err := strconv.ParseFloat(l.value(tagUSD), 64)
	if err != nil || !(usd >= 0) || math.IsInf(usd, 0) {
		return driver.Price{}
	}
	return driver.USD(usd)
}

func (l tagList) accelerator() accelerators.Accelerator {
	a, err := accelerators.Parse(cmp.Or(l.value(tagAccelerator), "none"))
	if err != nil {
		return accelerators.Accelerator{}
	}
	return a
}

// ofPool returns the filters for the things of a pool, or for the things of all pools if id is
// "".
func ofPool(id string) []types.Filter {
	if id == "" {
		return []types.Filter{filter("tag-key", tagPool)}
	}
	return []types.Filter{filter("tag:"+tagPool, id)}
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: slices.Clone(values)}
}
