package kubernetes

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// The forms of names in Kubernetes, from its documentation of names and labels.
var (
	dnsLabel  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	dnsName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	keyName   = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelText = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
)

// isKey reports whether a text can be the key of a label or an annotation.
func isKey(key string) bool {
	prefix, name, found := strings.Cut(key, "/")
	if !found {
		return keyName.MatchString(prefix)
	}
	return dnsName.MatchString(prefix) && keyName.MatchString(name)
}

// validate reports all faults at once.
func (c Config) validate() error {
	var f cloud.Faults
	c.checkPlace(&f)
	c.checkPod(&f)
	c.checkGPUs(&f)
	c.checkShapes(&f)
	f.Require(c.PendingTimeout >= 0, "PendingTimeout is %v", c.PendingTimeout)
	f.Timeout("RequestTimeout", c.RequestTimeout)
	f.Require(slices.Contains([]Reach{"", ReachAuto, ReachForward, ReachExec, ReachDirect}, c.Reach), "Reach is %q; it is auto, forward, exec or direct", c.Reach)
	return f.Err()
}

func (c Config) checkPlace(f *cloud.Faults) {
	for i, name := range c.Contexts {
		f.Require(name != "", "Contexts has an empty name")
		f.Require(!slices.Contains(c.Contexts[:i], name), "Contexts has %q twice", name)
	}
	f.Require(c.Namespace == "" || dnsLabel.MatchString(c.Namespace), "Namespace %q is not the name of a namespace", c.Namespace)
	if c.Queue != "" {
		f.Require(dnsLabel.MatchString(c.Queue), "Queue %q is not the name of a LocalQueue", c.Queue)
	}
	for field, name := range map[string]string{
		"PriorityClass": c.PriorityClass, "RuntimeClass": c.RuntimeClass, "Scheduler": c.Scheduler, "ServiceAccount": c.ServiceAccount,
	} {
		f.Require(name == "" || dnsName.MatchString(name), "%s %q is not a name in Kubernetes", field, name)
	}
	checkLabels(f, "NodeSelector", c.NodeSelector)
	checkLabels(f, "Labels", c.Labels)
	for key := range c.Annotations {
		f.Require(isKey(key), "Annotations has %q, which is not the key of an annotation", key)
	}
	for i, t := range c.Tolerations {
		f.Require(slices.Contains([]string{"", "Equal", "Exists"}, t.Operator), "Tolerations[%d].Operator is %q; it is Equal or Exists", i, t.Operator)
		f.Require(slices.Contains([]string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}, t.Effect), "Tolerations[%d].Effect is %q", i, t.Effect)
		f.Require(t.Key != "" || t.Operator == "Exists", "Tolerations[%d] has no Key, which needs the Operator Exists", i)
		f.Require(t.Operator != "Exists" || t.Value == "", "Tolerations[%d] has a Value, which the Operator Exists does not compare", i)
	}
	_, err := parseAffinity(c.Affinity)
	f.Require(err == nil, "Affinity: %v", err)
}

func checkLabels(f *cloud.Faults, field string, labels map[string]string) {
	for key, value := range labels {
		f.Require(isKey(key), "%s has %q, which is not the key of a label", field, key)
		f.Require(labelText.MatchString(value), "%s[%q] is %q, which is not the value of a label", field, key, value)
	}
}

func (c Config) checkPod(f *cloud.Faults) {
	f.Word("Image", c.Image)
	f.Require(slices.Contains([]string{"", "Always", "IfNotPresent", "Never"}, c.PullPolicy), "PullPolicy is %q; it is Always, IfNotPresent or Never", c.PullPolicy)
	for _, name := range c.PullSecrets {
		f.Require(dnsName.MatchString(name), "PullSecrets has %q, which is not the name of a Secret", name)
	}
	for field, v := range map[string]float64{"ShmSizeGiB": c.ShmSizeGiB, "EphemeralGiB": c.EphemeralGiB} {
		f.Require(isAmount(v), "%s is %v", field, v)
	}
	for i, v := range c.Volumes {
		f.Require(dnsName.MatchString(v.Claim), "Volumes[%d].Claim %q is not the name of a claim", i, v.Claim)
		f.Require(isTarget(v.Path), "Volumes[%d].Path is %q; it is an absolute path below /", i, v.Path)
		f.Require(!slices.ContainsFunc(c.Volumes[:i], func(o Volume) bool { return o.Path == v.Path }), "Volumes has the Path %q twice", v.Path)
	}
}

func (c Config) checkGPUs(f *cloud.Faults) {
	f.Require(c.GPUResource == "" || isKey(c.GPUResource) && strings.Contains(c.GPUResource, "/"), "GPUResource is %q; it is like nvidia.com/gpu", c.GPUResource)
	f.Require(c.GPULabel == "" || isKey(c.GPULabel), "GPULabel is %q, which is not the key of a label", c.GPULabel)
	for _, value := range slices.Sorted(maps.Keys(c.GPUNames)) {
		_, err := accelerators.Parse(c.GPUNames[value])
		f.Require(err == nil, "GPUNames[%q]: %v", value, err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.PriceByGPU)) {
		_, err := accelerators.Parse(name)
		f.Require(err == nil, "PriceByGPU: %v", err)
		f.Require(isAmount(c.PriceByGPU[name]), "PriceByGPU[%q] is %v", name, c.PriceByGPU[name])
	}
}

func (c Config) checkShapes(f *cloud.Faults) {
	f.Require(!c.Autoscaled || len(c.Shapes) > 0, "Autoscaled needs Shapes: what the autoscaler can make")
	for i, s := range c.Shapes {
		_, err := accelerators.Parse(cmp.Or(s.GPU, "none"))
		f.Require(err == nil, "Shapes[%d].GPU: %v", i, err)
		f.Require(s.Count >= 0 && (s.GPU == "" || s.Count > 0) && (s.GPU != "" || s.Count == 0), "Shapes[%d].Count is %d, and its GPU %q", i, s.Count, s.GPU)
		f.Require(isAmount(s.VCPUs) && isAmount(s.MemoryGiB) && isAmount(s.HourlyUSD), "Shapes[%d] has an amount below zero", i)
		checkLabels(f, "Shapes.NodeSelector", s.NodeSelector)
	}
}

func isAmount(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }

// isTarget reports whether something can be mounted at a path. The driver's own places are taken.
func isTarget(target string) bool {
	return path.IsAbs(target) && path.Clean(target) == target && target != "/" &&
		!slices.Contains([]string{"/dev/shm", runFolder, secretFolder, "/etc/passwd"}, target)
}

// complete returns the configuration with its defaults, as a copy that the caller cannot change.
func (c Config) complete() Config {
	c.Contexts, c.PullSecrets = slices.Clone(c.Contexts), slices.Clone(c.PullSecrets)
	c.Tolerations, c.Volumes = slices.Clone(c.Tolerations), slices.Clone(c.Volumes)
	c.Affinity = json.RawMessage(slices.Clone([]byte(c.Affinity)))
	c.GPUNames, c.NodeSelector, c.PriceByGPU = maps.Clone(c.GPUNames), maps.Clone(c.NodeSelector), maps.Clone(c.PriceByGPU)
	c.Labels, c.Annotations = maps.Clone(c.Labels), maps.Clone(c.Annotations)
	c.Shapes = slices.Clone(c.Shapes)
	for i := range c.Shapes {
		c.Shapes[i].NodeSelector = maps.Clone(c.Shapes[i].NodeSelector)
	}
	c.GPUResource = cmp.Or(c.GPUResource, nvidiaResource)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 30*time.Second)
	c.Reach = cmp.Or(c.Reach, ReachAuto)
	if c.PendingTimeout == 0 {
		c.PendingTimeout = defaultTimeout
		if c.Autoscaled || c.Queue != "" {
			c.PendingTimeout = queuedTimeout
		}
	}
	return c
}

// free reports whether the configuration names no price.
func (c Config) free() bool {
	return len(c.PriceByGPU) == 0 && !slices.ContainsFunc(c.Shapes, func(s Shape) bool { return s.HourlyUSD > 0 })
}
