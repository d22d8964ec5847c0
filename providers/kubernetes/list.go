package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// freshFor is how old an answer about all machines may be for Describe: the pool asks for each of
// its machines every few seconds. Tests shorten it.
var freshFor = 2 * time.Second

// A snapshot is the last answer about all machines.
type snapshot struct {
	at       time.Time
	life     int
	machines []cloud.Machine //secretvet:ignore their endpoints have no password
}

// changed makes the snapshot old, as this driver has just made or ended something.
func (a *api) changed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.life++
}

// Machines returns the machines of a pool, or of all pools: Jobs with their pods, and pods that
// outlive their Jobs. All pools' may be a moment old.
func (a *api) Machines(ctx context.Context, poolID string) ([]cloud.Machine, error) {
	a.mu.Lock()
	seen, life := a.seen, a.life
	a.mu.Unlock()
	if poolID == "" && seen.life == life && !seen.at.IsZero() && time.Since(seen.at) < freshFor {
		return slices.Clone(seen.machines), nil
	}
	asked := time.Now()
	all := []cloud.Machine{}
	for _, k := range a.clusters {
		some, err := a.machinesOf(ctx, k, poolID)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	if poolID == "" {
		a.mu.Lock()
		a.seen = snapshot{asked, life, slices.Clone(all)}
		a.mu.Unlock()
	}
	return all, nil
}

// machinesOf lists Jobs before pods: a Job without a pod may have one by then, and a pod without a
// Job has outlived it.
func (a *api) machinesOf(ctx context.Context, k *cluster, poolID string) ([]cloud.Machine, error) {
	jobs, now, err := k.listJobs(ctx, poolID)
	if err != nil {
		return nil, err
	}
	pods, err := k.listPods(ctx, poolID)
	if err != nil {
		return nil, err
	}
	byName := map[string][]pod{}
	var names []string
	for _, p := range pods {
		name := p.Metadata.Labels[keyNode]
		if byName[name] == nil {
			names = append(names, name)
		}
		byName[name] = append(byName[name], p)
	}
	var all []cloud.Machine
	for _, j := range jobs {
		if tagOf(j.Metadata).Pool == "" || j.Metadata.Name != j.Metadata.Labels[keyNode] {
			continue // a user has put our label on another Job
		}
		all = append(all, a.machine(ctx, k, &j, byName[j.Metadata.Name], now))
		delete(byName, j.Metadata.Name)
	}
	for _, name := range names {
		if left := byName[name]; len(left) > 0 && tagOf(left[0].Metadata).Pool != "" && dnsLabel.MatchString(name) && !allOver(left) {
			all = append(all, a.machine(ctx, k, nil, left, now))
		}
	}
	return all, nil
}

func allOver(pods []pod) bool {
	return !slices.ContainsFunc(pods, func(p pod) bool { return !p.over() })
}

// Machine returns one machine.
func (a *api) Machine(ctx context.Context, id string) (cloud.Machine, error) {
	k, name, err := a.locate(id)
	if err != nil {
		return cloud.Machine{}, err
	}
	if !dnsLabel.MatchString(name) {
		return cloud.Machine{}, notThere(name)
	}
	j, now, err := k.getJob(ctx, name)
	if err != nil && !isMissing(err) {
		return cloud.Machine{}, err
	}
	gone := err != nil
	pods, _, err := k.podsOf(ctx, name)
	switch {
	case err != nil:
		return cloud.Machine{}, err
	case !gone && tagOf(j.Metadata).Pool != "":
		return a.machine(ctx, k, &j, pods, now), nil
	case gone && !allOver(pods) && tagOf(pods[0].Metadata).Pool != "":
		return a.machine(ctx, k, nil, pods, now), nil
	}
	return cloud.Machine{}, notThere(name)
}

func notThere(name string) error {
	return &driver.Error{Kind: driver.ErrNotFound, Err: odd("the Job %s does not exist", strconv.Quote(name))}
}

// machine describes a Job, which may be gone, with its pods. One that must be given up is ended.
func (a *api) machine(ctx context.Context, k *cluster, j *job, pods []pod, now time.Time) cloud.Machine {
	p := current(pods)
	m := p.metaOr(j)
	r := a.explain(ctx, k, j, p, now)
	id := a.id(k, m.Labels[keyNode])
	r = a.judge(ctx, k, id, j, p, r, now)
	machine := cloud.Machine{Tag: tagOf(m), Region: k.name, Instance: driver.Instance{
		ID: id, State: r.state, StateReason: r.reason, FailureKind: r.kind, PreemptAt: r.preemptAt,
		Offer: driver.Offer{Region: k.name, InstanceType: "job"},
	}}
	if j != nil {
		machine.Doubt = machine.Tag.Doubt(j.Metadata.Name, j.Metadata.CreationTimestamp)
	} else if !slices.ContainsFunc(m.OwnerReferences, func(o owner) bool { return o.Kind == "Job" && o.Name == machine.Tag.Name }) {
		machine.Doubt = fmt.Sprintf("pod %s has its labels, and is not of the Job %s", m.Name, machine.Tag.Name)
	}
	if a.cfg.free() {
		machine.Offer.HourlyUSD = driver.USD(0)
	}
	if p != nil && p.Status.PodIP != "" {
		machine.PrivateAddr = p.Status.PodIP
		machine.SSH = driver.Endpoint{Addr: sshAddr(p.Status.PodIP), User: orRoot(m.Annotations[keyUser])}
		machine.Labels = map[string]string{"kubernetes.io/hostname": p.Spec.NodeName}
	}
	return machine
}

func orRoot(user string) string {
	if user == "" || strings.ContainsAny(user, " \t\n") {
		return root
	}
	return user
}

// current returns the pod that counts: one that is not over, and else the latest.
func current(pods []pod) *pod {
	var best *pod
	for i := range pods {
		p := &pods[i]
		switch {
		case best == nil, best.over() && !p.over():
			best = p
		case best.over() == p.over() && p.Metadata.CreationTimestamp.After(best.Metadata.CreationTimestamp):
			best = p
		}
	}
	return best
}

// metaOr returns the metadata of the Job, and if that is gone, of the pod.
func (p *pod) metaOr(j *job) meta {
	if j != nil {
		return j.Metadata
	}
	return p.Metadata
}
