package slurm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// facts are what a cluster is.
type facts struct {
	cluster     string
	version     string
	accounting  bool
	proctrack   string // "cgroup", "linuxproc"
	preemptType string
	userSignal  bool // a preempted job is told at the beginning of its grace time
	spot        map[string]bool
	grace       time.Duration // the least that a job in a spot partition has
}

// learn reads the facts, and returns the partitions. The first contact with the login node is here.
func (d *controller) learn(ctx context.Context) (map[string]partition, error) {
	defer func() { d.found = true }()
	answers, err := d.read(ctx, command{words: []string{"sinfo", "--version"}}, d.scontrol("show", "config"), d.scontrol("--oneliner", "show", "partition"))
	if err != nil {
		return nil, openError(err)
	}
	config := parseConfig(answers[1].out)
	cluster := config["ClusterName"]
	if cluster == "" || config["SLURM_VERSION"] == "" {
		return nil, unreadable("scontrol show config", answers[1].out)
	}
	partitions, err := parsePartitions(answers[2].out)
	if err != nil {
		return nil, err
	}
	accounting := config["AccountingStorageType"]
	d.facts = facts{
		cluster: cluster, version: strings.TrimSpace(answers[0].out),
		accounting:  accounting != "" && !strings.HasSuffix(accounting, "/none") && accounting != "(null)",
		proctrack:   strings.TrimPrefix(config["ProctrackType"], "proctrack/"),
		preemptType: config["PreemptType"], userSignal: hasParameter(config["SlurmctldParameters"], "preempt_send_user_signal"),
	}
	return partitions, d.learnSpot(partitions)
}

// parseConfig reads the output of scontrol show config.
func parseConfig(out string) map[string]string {
	config := map[string]string{}
	for line := range strings.Lines(out) {
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); ok && config[key] == "" {
			config[key] = strings.TrimSpace(value)
		}
	}
	return config
}

// hasParameter reports whether a list of parameters has one.
func hasParameter(list, name string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(p string) bool { return strings.TrimSpace(p) == name })
}

// learnSpot finds the partitions that are offered as spot, and the notice that their jobs get.
func (d *controller) learnSpot(partitions map[string]partition) error {
	for _, name := range slices.Concat(d.cfg.Partitions, d.cfg.PreemptiblePartitions) {
		if _, ok := partitions[name]; !ok {
			return invalid("open", "sinfo shows the names", "the cluster has no partition %q for Partitions or PreemptiblePartitions", name)
		}
	}
	spot := d.cfg.PreemptiblePartitions
	if spot == nil {
		spot = preemptible(partitions, d.facts.preemptType)
	}
	d.facts.spot = map[string]bool{}
	for i, name := range spot {
		d.facts.spot[name] = true
		if grace := partitions[name].grace; i == 0 || grace < d.facts.grace {
			d.facts.grace = grace
		}
	}
	return nil
}

// preemptible returns the partitions whose jobs are ended for those of others, in order.
func preemptible(partitions map[string]partition, preemptType string) (names []string) {
	if preemptType != "preempt/partition_prio" {
		return nil
	}
	least, most := -1.0, -1.0
	for _, p := range partitions {
		if least < 0 || p.tier < least {
			least = p.tier
		}
		most = max(most, p.tier)
	}
	for name, p := range partitions {
		if p.tier == least && least < most && (p.preemptMode == "CANCEL" || p.preemptMode == "REQUEUE") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// leaks returns what a user should know of a cluster that does not end all processes of a job, or "".
func (f facts) leaks() string {
	if f.tracksAll() {
		return ""
	}
	return fmt.Sprintf("the cluster's ProctrackType is %s: a process that leaves its job is ended by the job's own script, and not if that is killed", f.proctrack)
}

// tracksAll reports whether the end of a job ends every process of it.
func (f facts) tracksAll() bool { return f.proctrack != "linuxproc" && f.proctrack != "pgid" }
