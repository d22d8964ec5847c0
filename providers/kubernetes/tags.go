package kubernetes

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// The keys of labels and annotations on Jobs and pods. Selectors need labels; an owner has slashes,
// which labels have not.
const (
	keyPrefix = "gputrain.dev/"
	keyPool   = keyPrefix + "pool" // a label
	keyRank   = keyPrefix + "rank" // a label
	keyNode   = keyPrefix + "node" // a label: the Job's name, to select its pod by
	keyUser   = keyPrefix + "user" // an annotation: who logs in
	keyMade   = "app.kubernetes.io/managed-by"
	madeBy    = "gputrain"

	keyOwner, keyLease, keyUntil     = keyPrefix + "owner", keyPrefix + "lease", keyPrefix + "lease-until"
	keyCreated, keyExpires, keyHosts = keyPrefix + "created", keyPrefix + "expires", keyPrefix + "host-key"
)

// form is how Jobs and pods hold a tag. Jobs of other versions are found by it.
var form = pooltag.Form{
	Keys: []pooltag.Key{
		{Field: pooltag.Pool, Name: keyPool}, {Field: pooltag.Rank, Name: keyRank}, {Field: pooltag.Owner, Name: keyOwner},
		{Field: pooltag.Created, Name: keyCreated}, {Field: pooltag.Lease, Name: keyLease}, {Field: pooltag.Expires, Name: keyExpires},
		{Field: pooltag.Until, Name: keyUntil}, {Field: pooltag.HostKey, Name: keyHosts},
	},
	RFC3339: true, Lease: pooltag.Exact,
}

// marks returns the labels and annotations of an order's Job and pod.
func (c recipe) marks(order cloud.Order) (labels, annotations map[string]string) {
	labels, annotations = maps.Clone(c.Labels), maps.Clone(c.Annotations)
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(labels, order.Pool.Tags)
	for _, p := range form.Pairs(order.Tag) {
		if p.Key == keyPool || p.Key == keyRank {
			labels[p.Key] = p.Value
		} else {
			annotations[p.Key] = p.Value
		}
	}
	labels[keyNode], labels[keyMade] = order.Node.Name, madeBy
	annotations[keyUser] = c.user()
	if c.Queue != "" {
		labels["kueue.x-k8s.io/queue-name"] = c.Queue
	}
	return labels, annotations
}

// podMarks are further marks of pods alone: what would move them to save money leaves them, and no
// sidecar is added.
func (c recipe) podMarks(labels, annotations map[string]string) (podLabels, podAnnotations map[string]string) {
	podLabels, podAnnotations = maps.Clone(labels), maps.Clone(annotations)
	podAnnotations["karpenter.sh/do-not-disrupt"] = "true"
	podAnnotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "false"
	if !c.Istio {
		podLabels["sidecar.istio.io/inject"], podAnnotations["sidecar.istio.io/inject"] = "false", "false"
	}
	return podLabels, podAnnotations
}

// tagOf reads the tag of a Job or a pod, whose node is named by a label.
func tagOf(m meta) pooltag.Tag {
	t := form.Read(func(key string) string {
		if key == keyPool || key == keyRank {
			return m.Labels[key]
		}
		return m.Annotations[key]
	})
	if t.Pool == "" {
		return t
	}
	t.Name = m.Labels[keyNode]
	if t.Created.IsZero() {
		t.Created = m.CreationTimestamp
	}
	return t
}

// checkTags refuses tags that cannot be labels.
func checkTags(tags map[string]string) error {
	var f cloud.Faults
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		f.Require(isKey(key) && !strings.HasPrefix(key, keyPrefix) && key != keyMade, "the tag %q cannot be a label: a name has letters, digits, dashes, underscores and dots, after a domain and a slash if it has one", key)
		f.Require(labelText.MatchString(tags[key]), "the tag %s=%q cannot be a label: a value has at most 63 letters, digits, dashes, underscores and dots", key, tags[key])
	}
	return f.Err()
}

// leaseMarks are the annotations that change while a pool goes on, and when another program takes
// it over.
func leaseMarks(pool driver.PoolInfo, until time.Time) map[string]string {
	t := pooltag.Of(pool, time.Time{})
	t.Until = until
	marks := form.Map(t)
	delete(marks, keyPool)
	delete(marks, keyRank)
	return marks
}
