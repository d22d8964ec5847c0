package aws

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
)

// What is made for a pool has these tags, in the call that makes it.
const (
	tagManaged = "gputrain:managed" // "true"
	tagPool    = "gputrain:pool"
	tagOwner   = "gputrain:owner"
	tagLease   = "gputrain:lease" // seconds
	tagExpires = "gputrain:expires"

	// Of machines only.
	tagNode        = "gputrain:node" // its name
	tagRank        = "gputrain:rank"
	tagUSD         = "gputrain:usd" // an hour
	tagAccelerator = "gputrain:accelerator"
	tagHostKey     = "gputrain:host-key" // the public one
	tagUser        = "gputrain:user"     // whom to log in as
	tagUntil       = "gputrain:lease-until"
)

var (
	poolForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)
	// valueForm is what EC2 lets stand in every tag's value.
	valueForm = regexp.MustCompile(`^[\pL\pN\s_.:/=+@-]{0,256}$`)
)

func checkPool(id string) error {
	if !poolForm.MatchString(id) {
		return fmt.Errorf("%w: %q is not the ID of a pool", gputrain.ErrInvalid, id)
	}
	return nil
}

// A tagList is tags in the order in which they are written down.
type tagList []types.Tag

// add adds a tag, unless it would be empty or could not be one.
func (l *tagList) add(key, value string) {
	if value != "" && valueForm.MatchString(value) {
		*l = append(*l, types.Tag{Key: &key, Value: &value})
	}
}

// poolTags are the tags of what a pool shares, under a name.
func poolTags(pool gputrain.PoolInfo, name string) tagList {
	l := tagList{}
	l.add("Name", name)
	l.add(tagManaged, "true")
	l.add(tagPool, pool.ID)
	l.add(tagOwner, pool.Owner)
	if pool.Lease > 0 {
		l.add(tagLease, strconv.FormatFloat(math.Ceil(pool.Lease.Seconds()), 'f', -1, 64))
	}
	if !pool.Expires.IsZero() {
		l.add(tagExpires, pool.Expires.UTC().Format(time.RFC3339))
	}
	return l
}

// nodeTags are the tags of a machine and of its disk.
func nodeTags(req gputrain.LaunchRequest, node gputrain.NodeRequest) tagList {
	l := poolTags(req.Pool, node.Name)
	l.add(tagNode, node.Name)
	l.add(tagRank, strconv.Itoa(node.Rank))
	if usd, known := req.Offer.HourlyUSD.USD(); known {
		l.add(tagUSD, strconv.FormatFloat(usd, 'f', -1, 64))
	}
	if !req.Offer.Accelerator.IsZero() {
		l.add(tagAccelerator, req.Offer.Accelerator.String())
	}
	l.add(tagHostKey, publicKey(node.HostKey))
	return l
}

// publicKey is a host key without its comment.
func publicKey(k gputrain.HostKey) string {
	fields := strings.Fields(k.Public)
	return strings.Join(fields[:min(len(fields), 2)], " ")
}

// on returns the tags as they are given to a call that makes something.
func (l tagList) on(kinds ...types.ResourceType) []types.TagSpecification {
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

// pool returns whose something is: "" where it is no pool's.
func (l tagList) pool() string {
	if id := l.value(tagPool); l.value(tagManaged) == "true" && poolForm.MatchString(id) {
		return id
	}
	return ""
}

// resource is what tags say of what is held for a pool.
func (l tagList) resource(kind, id, name, region string) gputrain.Resource {
	r := gputrain.Resource{
		Provider: providerName, Kind: kind, ID: id, Name: cmp.Or(name, l.value("Name")), Region: region,
		Pool: l.pool(), Owner: l.value(tagOwner), Expires: moment(l.value(tagExpires)), LeaseUntil: moment(l.value(tagUntil)),
	}
	if s, err := strconv.ParseInt(l.value(tagLease), 10, 32); err == nil && s > 0 {
		r.Lease = time.Duration(s) * time.Second
	}
	return r
}

func (l tagList) price() gputrain.Price {
	usd, err := strconv.ParseFloat(l.value(tagUSD), 64)
	if err != nil || !(usd >= 0) || math.IsInf(usd, 0) {
		return gputrain.Price{}
	}
	return gputrain.USD(usd)
}

func (l tagList) accelerator() accelerators.Accelerator {
	a, err := accelerators.Parse(cmp.Or(l.value(tagAccelerator), "none"))
	if err != nil {
		return accelerators.Accelerator{}
	}
	return a
}

func moment(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// ofPool are the filters for what is tagged with a pool, or with any for "".
func ofPool(id string) []types.Filter {
	if id == "" {
		return []types.Filter{filter("tag-key", tagPool)}
	}
	return []types.Filter{filter("tag:"+tagPool, id)}
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: slices.Clone(values)}
}
