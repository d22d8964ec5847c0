package runpod

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
)

// RunPod has no tags. A pod is known to be a pool's by its name, and what else there
// is to know stands in its environment, which the API shows to the account.
const (
	prefix    = "gputrain-"
	ofCluster = "-cluster" // ends the name of a cluster

	tagPool    = "GPUTRAIN_TAG_POOL"
	tagOwner   = "GPUTRAIN_TAG_OWNER"
	tagLease   = "GPUTRAIN_TAG_LEASE" // seconds
	tagExpires = "GPUTRAIN_TAG_EXPIRES"
	tagOffer   = "GPUTRAIN_TAG_OFFER"
	tagNodes   = "GPUTRAIN_TAG_NODES"     // names, by a cluster's rank
	tagHostKey = "GPUTRAIN_TAG_HOST_KEYS" // the public ones, in the same order

	// envHostKey is a private key; _0, _1 ... by rank on a cluster. Its being in the
	// name makes it known as a secret in whatever the API answers.
	envHostKey = "GPUTRAIN_HOST_KEY"
)

// nodeName is "<pool id>-<rank>", with a suffix for a replacement, and one for a cluster.
var nodeName = regexp.MustCompile(`^` + prefix + `(([a-z][a-z0-9-]{0,39})-([0-9]{1,6})(?:-r[0-9]{1,6})?)(` + ofCluster + `)?$`)

// tags are what is put on the pods of a pool, for the named nodes.
func tags(req gputrain.LaunchRequest, nodes []gputrain.NodeRequest) map[string]string {
	var names, keys []string
	for _, n := range nodes {
		names = append(names, n.Name)
		keys = append(keys, publicKey(n.HostKey))
	}
	t := map[string]string{
		tagPool: req.Pool.ID, tagOwner: req.Pool.Owner, tagOffer: req.Offer.ID,
		tagNodes: strings.Join(names, ","), tagHostKey: strings.Join(keys, ","),
	}
	if req.Pool.Lease > 0 {
		t[tagLease] = strconv.FormatInt(int64(req.Pool.Lease.Seconds()), 10)
	}
	if !req.Pool.Expires.IsZero() {
		t[tagExpires] = req.Pool.Expires.UTC().Format(time.RFC3339)
	}
	return t
}

// publicKey is a host key without its comment.
func publicKey(k gputrain.HostKey) string {
	fields := strings.Fields(k.Public)
	return strings.Join(fields[:min(len(fields), 2)], " ")
}

// An identity is whose node a pod is.
type identity struct {
	pool, name string
	rank       int
	hostKey    string
}

// identify says whose node a pod is, if it is one's of a pool. A member of a cluster
// whose rank RunPod has not decided yet has no name.
func identify(p pod) (identity, bool) {
	names, keys := strings.Split(p.Env[tagNodes], ","), strings.Split(p.Env[tagHostKey], ",")
	name, at := p.Name, 0
	if p.Cluster != nil && p.Env[tagPool] != "" {
		if p.Cluster.Rank == nil || *p.Cluster.Rank < 0 || *p.Cluster.Rank >= len(names) {
			return identity{pool: p.Env[tagPool], rank: -1}, true
		}
		at = *p.Cluster.Rank
		name = prefix + names[at]
	}
	m := nodeName.FindStringSubmatch(name)
	if m == nil {
		return identity{}, false
	}
	who := identity{pool: m[2], name: m[1]}
	who.rank, _ = strconv.Atoi(m[3])
	if at < len(keys) {
		who.hostKey = keys[at]
	}
	return who, true
}

// resource is what a pod tells of itself as something that a pool holds.
func resource(p pod, who identity) gputrain.Resource {
	r := gputrain.Resource{
		Provider: providerName, Kind: "machine", ID: p.ID, Name: who.name, Region: p.DataCenterID, HourlyUSD: cost(p),
		Pool: who.pool, Owner: p.Env[tagOwner], Created: moment(p.CreatedAt), Expires: moment(p.Env[tagExpires]),
	}
	if seconds, err := strconv.ParseInt(p.Env[tagLease], 10, 32); err == nil && seconds > 0 {
		r.Lease = time.Duration(seconds) * time.Second
	}
	return r
}

// cost is what a pod really costs. Of one that is not up that can be nothing yet.
func cost(p pod) gputrain.Price {
	if p.Cost > 0 {
		return gputrain.USD(p.Cost)
	}
	return gputrain.Price{}
}

// A placement is what an offer's ID says: what is rented, and where.
type placement struct {
	mode   ClusterMode
	cloud  Cloud
	spot   bool
	region string // a data centre, a country, or anywhere
	count  int    // of GPUs, or of vCPUs
	id     string // of the type of GPU, or the flavour of CPU
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

// country and dataCenter return the region, if it is one.
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

func parsePlacement(offerID string) (placement, error) {
	parts := strings.SplitN(offerID, "/", 6)
	if len(parts) < 6 {
		return placement{}, fmt.Errorf("%w: %q is not the ID of an offer of RunPod's", gputrain.ErrInvalid, offerID)
	}
	p := placement{mode: ClusterMode(parts[0]), cloud: Cloud(parts[1]), spot: parts[2] == "spot", region: parts[3], id: parts[5]}
	count, err := strconv.Atoi(parts[4])
	if p.count = count; err != nil || count < 1 || p.id == "" || p.cloud != Secure && p.cloud != Community || p.mode != Individual && p.mode != Instant {
		return placement{}, fmt.Errorf("%w: %q is not the ID of an offer of RunPod's", gputrain.ErrInvalid, offerID)
	}
	return p, nil
}

// variables are an environment in GraphQL's form.
func variables(env map[string]string) []variable {
	var list []variable
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, variable{name, env[name]})
	}
	return list
}
