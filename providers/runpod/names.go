package runpod

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// RunPod has no tags. A pod's name identifies its pool. Its environment, which the API shows to
// the account, holds the rest.
const (
	ofCluster = "-cluster" // ends the name of a cluster
	clusterID = "cluster:" // begins the ID that stands for a cluster without members

	tagPool    = "GPUTRAIN_TAG_POOL"
	tagOffer   = "GPUTRAIN_TAG_OFFER"
	tagNodes   = "GPUTRAIN_TAG_NODES"     // by rank in a cluster
	tagHostKey = "GPUTRAIN_TAG_HOST_KEYS" // public keys, in the same order

	// envHostKey is a private key, with _0, _1 ... by rank in a cluster. The name contains it,
	// so that it is known as a secret in the API's answers.
	envHostKey = "GPUTRAIN_HOST_KEY"
)

// tagForm is the common part of the environment of all pods of a pool.
var tagForm = pooltag.Form{
	Keys: []pooltag.Key{
		{Field: pooltag.Pool, Name: tagPool}, {Field: pooltag.Owner, Name: "GPUTRAIN_TAG_OWNER"},
		{Field: pooltag.Lease, Name: "GPUTRAIN_TAG_LEASE"}, {Field: pooltag.Expires, Name: "GPUTRAIN_TAG_EXPIRES"},
	},
	RFC3339: true, Lease: pooltag.Down, Empty: []pooltag.Field{pooltag.Owner},
}

// tags returns the tags of a pool's pods, for the named nodes.
func tags(pool driver.PoolInfo, offerID string, nodes []driver.NodeRequest) map[string]string {
	t := tagForm.Map(pooltag.Of(pool, time.Time{}))
	t[tagOffer] = offerID
	t[tagNodes] = strings.Join(cloud.Each(nodes, func(n driver.NodeRequest) string { return n.Name }), ",")
	t[tagHostKey] = strings.Join(cloud.Each(nodes, func(n driver.NodeRequest) string { return pooltag.PublicKey(n.HostKey.Public) }), ",")
	return t
}

// tagOf reads the owner of a pod. The name decides the pool, whatever the environment is. A
// member of a cluster without a rank from RunPod belongs to a pool but has no name yet.
func tagOf(p pod) pooltag.Tag {
	names, keys := strings.Split(p.Env[tagNodes], ","), strings.Split(p.Env[tagHostKey], ",")
	t := tagForm.ReadMap(p.Env)
	t.Created = moment(p.CreatedAt)
	name, at := p.Name, 0
	if p.Cluster != nil && p.Env[tagPool] != "" {
		if p.Cluster.Rank == nil || *p.Cluster.Rank < 0 || *p.Cluster.Rank >= len(names) {
			t.Pool, t.Rank = p.Env[tagPool], -1
			return t
		}
		at = *p.Cluster.Rank
		name = pooltag.Prefix + names[at]
	}
	pool, node, rank, ours := pooltag.ParseName(name)
	if !ours {
		return pooltag.Tag{}
	}
	t.Pool, t.Name, t.Rank = pool, node, rank
	if at < len(keys) {
		t.HostKey = keys[at]
	}
	return t
}

// doubtOf returns why a pod may be a stranger's, though its name is a pool's: its environment, if the API shows it, says otherwise.
func doubtOf(p pod, t pooltag.Tag) string {
	switch nodes := p.Env[tagNodes]; {
	case t.Pool == "" || len(p.Env) == 0:
		return ""
	case p.Env[tagPool] != t.Pool:
		return fmt.Sprintf("its name is of pool %s, and its environment of pool %q", t.Pool, p.Env[tagPool])
	case t.Name != "" && !slices.Contains(strings.Split(nodes, ","), t.Name):
		return fmt.Sprintf("its name is of node %s, and its environment of nodes %q", t.Name, nodes)
	}
	return ""
}

// A placement is the content of an offer's ID: what is rented, and where.
type placement struct {
	mode   ClusterMode
	cloud  Cloud
	spot   bool
	region string // a data centre, a country, or anywhere
	count  int    // GPUs or vCPUs
	id     string // the type of GPU, or the flavour of CPU
}

const anywhere = "global"

func (p placement) String() string {
	rented := "on-demand"
	if p.spot {
		rented = "spot"
	}
	return fmt.Sprintf("%s/%s/%s/%s/%d/%s", p.mode, p.cloud, rented, p.region, p.count, p.id)
}

func (p placement) cpu() bool    { return strings.HasPrefix(p.id, "cpu") }
func (p placement) nvidia() bool { return !p.cpu() && !strings.HasPrefix(p.id, "AMD") }

// country and dataCenter return the region if it is one.
func (p placement) country() string {
	if countryForm.MatchString(p.region) {
		return p.region
	}
	return ""
}

func (p placement) dataCenter() string {
	if p.region == anywhere || p.country() != "" {
		return ""
	}
	return p.region
}

// countryOf returns the country of a region, or "" if that may be in several. A data centre's name begins
// with the country, "US-TX-3", or with a continent before the country, "EU-RO-1".
func countryOf(region string) string {
	first, rest, _ := strings.Cut(region, "-")
	switch first {
	case "EU", "EUR", "AP", "OC":
		first, _, _ = strings.Cut(rest, "-")
	}
	if !countryForm.MatchString(first) {
		return ""
	}
	return first
}

func parsePlacement(offerID string) (placement, error) {
	parts := strings.SplitN(offerID, "/", 6)
	if len(parts) < 6 {
		return placement{}, fmt.Errorf("%w: %q is not the ID of a RunPod offer", driver.ErrInvalid, offerID)
	}
	p := placement{mode: ClusterMode(parts[0]), cloud: Cloud(parts[1]), spot: parts[2] == "spot", region: parts[3], id: parts[5]}
	count, err := strconv.Atoi(parts[4])
	if p.count = count; err != nil || count < 1 || p.id == "" || p.cloud != Secure && p.cloud != Community || p.mode != Individual && p.mode != Instant {
		return placement{}, fmt.Errorf("%w: %q is not the ID of a RunPod offer", driver.ErrInvalid, offerID)
	}
	return p, nil
}

// variables returns an environment in GraphQL's form.
func variables(env map[string]string) []variable {
	var list []variable
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, variable{name, env[name]})
	}
	return list
}
