package kubernetes

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	containerName = "node"
	sshPort       = 2222
	secretFolder  = "/etc/gputrain"
	runFolder     = "/run/gputrain"
	// secretWait is the deadline of a Job until its Secret is made: if the program dies in between, the pod waits for the Secret
	// in vain, and holds what it has asked for.
	secretWait = 5 * time.Minute
	// longestLife ends a node without a TTL.
	longestLife = 30 * 24 * time.Hour
	// finishedFor is how long a Job that is over is kept, in seconds, with its pod and its Secret.
	finishedFor = 60
	// lostAfter is how long a pod stays on a cluster node that is not ready, in seconds. The
	// cluster's default is 300.
	lostAfter = 60
	// user is the user and group of an Unprivileged node.
	userID   = 1000
	userName = "gputrain"
	root     = "root"
)

// user returns the user that tasks run as.
func (c Config) user() string {
	if c.Unprivileged {
		return userName
	}
	return root
}

// A recipe makes the Job and the Secret of a node.
type recipe struct{ Config }

// tellsDisruption has the Job remember that its pod was preempted or evicted: the pod itself, which
// has the condition, is soon removed.
var tellsDisruption = podFailure{Rules: []failureRule{{Action: "FailJob", OnPodConditions: []podCondition{{disrupted, "True"}}}}}

// jobOf returns the Job of an order. It has no secret: those stand in a Secret of the same name.
func (c recipe) jobOf(order cloud.Order, at place, now time.Time) (job, error) {
	spec, err := c.podOf(order, at)
	if err != nil {
		return job{}, err
	}
	labels, annotations := c.marks(order)
	podLabels, podAnnotations := c.podMarks(labels, annotations)
	return job{
		APIVersion: "batch/v1", Kind: "Job",
		Metadata: meta{Name: order.Node.Name, Labels: labels, Annotations: annotations},
		Spec: jobSpec{
			Parallelism: 1, Completions: 1, BackoffLimit: 0, PodReplacementPolicy: "Failed", PodFailurePolicy: &tellsDisruption,
			ActiveDeadlineSeconds:   min(deadline(order, now), int64(secretWait.Seconds())),
			TTLSecondsAfterFinished: finishedFor,
			Template:                podTemplate{Metadata: meta{Labels: podLabels, Annotations: podAnnotations}, Spec: spec},
		},
	}, nil
}

// deadline returns the seconds after which the cluster ends the Job: those to the end of the pool's
// TTL, or of the query's.
func deadline(order cloud.Order, now time.Time) int64 {
	life := cmp.Or(order.Spec.TTL, longestLife)
	if !order.Pool.Expires.IsZero() {
		life = order.Pool.Expires.Sub(now)
	}
	return max(int64(math.Ceil(life.Seconds())), 1)
}

func (c recipe) podOf(order cloud.Order, at place) (podSpec, error) {
	affinity, err := c.affinity(at)
	if err != nil {
		return podSpec{}, err
	}
	no, token := false, c.ServiceAccount != ""
	spec := podSpec{
		RestartPolicy: "Never", EnableServiceLinks: &no, AutomountServiceAccountToken: &token, ServiceAccountName: c.ServiceAccount,
		TerminationGracePeriodSeconds: int64(grace.Seconds()), Hostname: order.Node.Name,
		NodeSelector: c.selectorOf(at), Tolerations: c.tolerations(order.Offer.Accelerator.Name != "", order.Offer.Spot), Affinity: affinity,
		PriorityClassName: c.PriorityClass, RuntimeClassName: c.RuntimeClass, SchedulerName: c.Scheduler,
		SecurityContext: c.security(),
	}
	for _, name := range c.PullSecrets {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, named{name})
	}
	node := container{
		Name: containerName, Image: cmp.Or(c.Image, order.Spec.Image, DefaultImage), ImagePullPolicy: c.PullPolicy,
		Command: []string{"sh", secretFolder + "/start.sh"}, Resources: c.resources(order), SecurityContext: c.containerSecurity(),
	}
	spec.Volumes, node.VolumeMounts, err = c.volumes(order)
	spec.Containers = []container{node}
	return spec, err
}

// selectorOf returns the labels that a cluster node must have.
func (c recipe) selectorOf(at place) map[string]string {
	all := maps.Clone(c.NodeSelector)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, at.selector)
	return all
}

// security returns the user of the pod. Only without root is the standard's level "restricted" kept.
func (c recipe) security() *podSecurity {
	if !c.Unprivileged {
		id := int64(0)
		return &podSecurity{RunAsUser: &id, RunAsGroup: &id}
	}
	id := int64(userID)
	return &podSecurity{RunAsUser: &id, RunAsGroup: &id, FSGroup: &id, RunAsNonRoot: true, SeccompProfile: &seccomp{"RuntimeDefault"}}
}

func (c recipe) containerSecurity() *containerSecurity {
	if !c.Unprivileged {
		return nil
	}
	no := false
	return &containerSecurity{AllowPrivilegeEscalation: &no, Capabilities: &capabilities{Drop: []string{"ALL"}}}
}

// resources returns the amounts of a node. A quota wants cpu and memory from every pod, so both are
// always there. What the spec does not ask for has no limit.
func (c recipe) resources(order cloud.Order) resources {
	r := resources{Requests: map[string]string{}, Limits: map[string]string{}}
	r.Requests["cpu"] = milli(cmp.Or(order.Spec.VCPUs, leastVCPUs))
	r.Requests["memory"] = mebi(cmp.Or(order.Spec.MemoryGiB, leastMemoryGiB))
	if order.Spec.MemoryGiB > 0 {
		r.Limits["memory"] = r.Requests["memory"]
	}
	if disk := cmp.Or(c.EphemeralGiB, order.Spec.DiskGiB); disk > 0 {
		r.Requests["ephemeral-storage"] = mebi(disk)
		r.Limits["ephemeral-storage"] = r.Requests["ephemeral-storage"]
	}
	if n := devices(order.Offer.Accelerator); n > 0 {
		r.Requests[c.GPUResource] = strconv.Itoa(n)
		r.Limits[c.GPUResource] = r.Requests[c.GPUResource]
	}
	return r
}

// The requests of a node whose spec asks for no amount.
const (
	leastVCPUs     = 0.1
	leastMemoryGiB = 0.25
)

func milli(vcpus float64) string { return strconv.Itoa(int(math.Ceil(vcpus*1000))) + "m" }
func mebi(gib float64) string    { return strconv.Itoa(int(math.Ceil(gib*1024))) + "Mi" }

// claimPrefix begins the source of a mount that is a persistent volume claim.
const claimPrefix = "pvc:"

// volumes returns the volumes of a node, and where they are mounted.
func (c recipe) volumes(order cloud.Order) ([]volume, []volumeMount, error) {
	all := []volume{
		{Name: "gputrain", Secret: &secretVolume{SecretName: order.Node.Name, DefaultMode: c.secretMode()}},
		{Name: "run", EmptyDir: &emptyDir{Medium: "Memory", SizeLimit: "16Mi"}},
		{Name: "shm", EmptyDir: &emptyDir{Medium: "Memory", SizeLimit: c.sharedMemory(order.Spec)}},
	}
	mounts := []volumeMount{
		{Name: "gputrain", MountPath: secretFolder, ReadOnly: true}, {Name: "run", MountPath: runFolder}, {Name: "shm", MountPath: "/dev/shm"},
	}
	if c.Unprivileged { // a home, and a name in the list of users
		all = append(all, volume{Name: "home", EmptyDir: &emptyDir{}})
		mounts = append(mounts, volumeMount{Name: "home", MountPath: home},
			volumeMount{Name: "gputrain", MountPath: "/etc/passwd", SubPath: keyPasswd, ReadOnly: true})
	}
	wanted := slices.Clone(c.Volumes)
	for _, m := range order.Spec.Mounts {
		claim, ok := strings.CutPrefix(m.Source, claimPrefix)
		if !ok || !dnsName.MatchString(claim) || !isTarget(m.Target) {
			return nil, nil, &driver.Error{Kind: driver.ErrInvalid, Err: fmt.Errorf("the mount of %q at %q is not possible", m.Source, m.Target),
				Hint: `a source is "pvc:" and the name of a claim of the namespace, a target an absolute path`}
		}
		wanted = append(wanted, Volume{Claim: claim, Path: m.Target, ReadOnly: m.ReadOnly})
	}
	for _, v := range wanted {
		name := ""
		for _, other := range all { // a claim that is mounted twice is one volume
			if other.Claim != nil && other.Claim.ClaimName == v.Claim {
				name = other.Name
			}
		}
		if name == "" {
			name = "claim-" + strconv.Itoa(len(all))
			all = append(all, volume{Name: name, Claim: &claimVolume{ClaimName: v.Claim}})
		}
		mounts = append(mounts, volumeMount{Name: name, MountPath: v.Path, ReadOnly: v.ReadOnly})
	}
	return all, mounts, nil
}

// sharedMemory returns the size of /dev/shm, or "" for as much as there is.
func (c recipe) sharedMemory(q driver.Query) string {
	switch {
	case c.ShmSizeGiB > 0:
		return mebi(c.ShmSizeGiB)
	case q.MemoryGiB > 0:
		return mebi(max(q.MemoryGiB/2, 1))
	}
	return ""
}
