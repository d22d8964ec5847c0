package container

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

const (
	labelPool    = labelPrefix + "pool"
	labelOwner   = labelPrefix + "owner"
	labelCreated = labelPrefix + "created"
	labelLease   = labelPrefix + "lease" // seconds
	labelExpires = labelPrefix + "expires"
	labelRank    = labelPrefix + "rank"
	labelHostKey = labelPrefix + "hostkey"
	// The rest is only on nodes with Config.NamePrefix, User and OwnGPUs.
	labelName = labelPrefix + "name"
	labelUser = labelPrefix + "user"
	labelGPUs = labelPrefix + "gpus" // separated by commas
)

// form are the labels that identify the owner of a thing. A node's also have its rank and host
// key.
var form = pooltag.Form{
	Keys: []pooltag.Key{
		{Field: pooltag.Pool, Name: labelPool}, {Field: pooltag.Owner, Name: labelOwner}, {Field: pooltag.Created, Name: labelCreated},
		{Field: pooltag.Lease, Name: labelLease}, {Field: pooltag.Expires, Name: labelExpires},
	},
	RFC3339: true, Lease: pooltag.Exact, Empty: []pooltag.Field{pooltag.Owner},
}

// labelArgs returns the labels of everything that is made for a pool now.
func (d *containerDriver) labelArgs(pool driver.PoolInfo, now time.Time) []string {
	var args []string
	add := func(name, value string) { args = append(args, "--label", name+"="+value) }
	for _, p := range form.Pairs(pooltag.Of(pool, now)) {
		add(p.Key, p.Value)
	}
	for _, k := range sortedKeys(d.cfg.Labels) {
		add(k, d.cfg.Labels[k])
	}
	return args
}

// checkTags checks that the user's tags can be labels.
func checkTags(pool driver.PoolInfo) error {
	for _, name := range sortedKeys(pool.Tags) {
		if name == "" || strings.ContainsAny(name+pool.Tags[name], "\x00") || strings.Contains(name, "=") || strings.HasPrefix(name, labelPrefix) {
			return fmt.Errorf("%w: tag %q cannot be a container's label: it needs a name, without \"=\", that does not begin with %q", driver.ErrInvalid, name, labelPrefix)
		}
	}
	return nil
}

// nodeLabelArgs returns the further labels of a node.
func (d *containerDriver) nodeLabelArgs(pool driver.PoolInfo, node driver.NodeRequest, gpus []string) []string {
	var args []string
	for _, name := range sortedKeys(pool.Tags) {
		args = append(args, "--label", name+"="+pool.Tags[name])
	}
	args = append(args, "--label", labelRank+"="+strconv.Itoa(node.Rank), "--label", labelHostKey+"="+hostKeyLabel(node))
	if d.cfg.NamePrefix != "" {
		args = append(args, "--label", labelName+"="+node.Name)
	}
	if user := d.cfg.user(); user != root {
		args = append(args, "--label", labelUser+"="+user)
	}
	if len(gpus) > 0 {
		args = append(args, "--label", labelGPUs+"="+strings.Join(gpus, ","))
	}
	return args
}

// labelFilter selects by a pool's label, or by that of any pool.
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

// resource describes a thing of a pool by its labels. It ignores a label that is missing, as
// older versions' are, or malformed.
func resource(kind, id, name string, labels map[string]string) driver.Resource {
	r := form.ReadMap(labels).Resource(providerName, kind, id)
	r.Name, r.HourlyUSD = name, driver.USD(0)
	return r
}
