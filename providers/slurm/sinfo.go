package slurm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// sinfoFormat has a line for each node and partition: node, partition (the default one with a star), state, GRES, CPUs,
// memory in MB, features, time limit and time left.
var sinfoFormat = strings.Join([]string{"%N", "%P", "%t", "%G", "%c", "%m", "%f", "%l", "%L"}, separator)

// A siteNode is a node in a partition.
type siteNode struct {
	name, partition string
	isDefault       bool // of the cluster, the partition
	state           string
	gpus            []gpuCount
	cpus            int
	memoryMiB       float64
	features        []string

	// By scontrol.
	arch     string
	freeCPUs int
	freeMiB  float64
	used     []gpuCount // by type
	total    int        // used of all types, or -1 if only the types are known
	taken    bool       // some of it
}

// A partition is what scontrol shows of one.
type partition struct {
	name                 string
	maxTime, defaultTime time.Duration // unlimited, or 0 for none
	grace                time.Duration
	tier                 float64
	preemptMode          string
	up                   bool
}

// A site is the nodes and partitions at one moment.
type site struct {
	nodes      []siteNode
	partitions map[string]partition
}

// sites asks for nodes and partitions.
func (d *controller) site(ctx context.Context) (site, error) {
	answers, err := d.read(ctx, d.sinfo(), d.scontrol("--oneliner", "--detail", "show", "node"), d.scontrol("--oneliner", "show", "partition"))
	if err != nil {
		return site{}, err
	}
	nodes, err := parseNodes(answers[0].out, answers[1].out)
	if err != nil {
		return site{}, err
	}
	partitions, err := parsePartitions(answers[2].out)
	return site{nodes, partitions}, err
}

func (d *controller) sinfo() command {
	return command{words: d.slurm("sinfo", "--noheader", "--all", "--Node", "--format="+sinfoFormat)}
}

func (d *controller) scontrol(args ...string) command {
	return command{words: d.slurm("scontrol", args...)}
}

var errUnreadable = errors.New("cannot read the answer")

func unreadable(program, out string) error {
	return &driver.Error{Kind: driver.ErrUnavailable, Err: fmt.Errorf("%s: %w: %.80q", program, errUnreadable, out)}
}

// parseNodes reads the output of sinfo, and what scontrol says of the same nodes. A node that only sinfo shows has no free
// resources.
func parseNodes(sinfo, scontrol string) ([]siteNode, error) {
	lines, ok := rows(sinfo, 9)
	if !ok || len(lines) == 0 {
		return nil, unreadable("sinfo", sinfo)
	}
	known := map[string]record{}
	for _, r := range parseRecords(scontrol, "NodeName") {
		known[r["NodeName"]] = r
	}
	var all []siteNode
	for _, f := range lines {
		n := siteNode{
			name: f[0], state: strings.ToLower(f[2]), gpus: parseGRES(f[3]), cpus: int(number(f[4])), memoryMiB: number(f[5]),
		}
		n.partition, n.isDefault = strings.CutSuffix(f[1], "*")
		if f[6] != "(null)" {
			n.features = strings.Split(f[6], ",")
		}
		if r, ok := known[n.name]; ok {
			n.take(r)
		} else {
			n.taken = true
		}
		if !slices.ContainsFunc(all, func(m siteNode) bool { return m.name == n.name && m.partition == n.partition }) {
			all = append(all, n)
		}
	}
	return all, nil
}

// take adds what scontrol says of a node.
func (n *siteNode) take(r record) {
	n.arch = goArch(r.text("Arch"))
	n.freeCPUs = n.cpus - int(r.number("CPUAlloc"))
	n.freeMiB = n.memoryMiB - r.number("AllocMem")
	n.taken = r.number("CPUAlloc") > 0
	n.total = -1
	if len(parseTRES(r["CfgTRES"])) > 0 { // the site accounts for GPUs
		n.used = parseTRES(r["AllocTRES"])
		n.total, _ = countOf(n.used, "")
	} else {
		n.used = parseGRES(r.text("GresUsed"))
	}
}

// free returns how many GPUs of a type are not in use.
func (n *siteNode) free(kind string) int {
	has, _ := countOf(n.gpus, kind)
	if used, known := countOf(n.used, kind); known && (kind != "" || n.total < 0) {
		return has - used
	}
	if n.total >= 0 && len(n.gpus) == 1 {
		return has - n.total
	}
	if n.total > 0 { // of several types, and it is not known of which
		return max(0, has-n.total)
	}
	return has
}

// takesJobs reports whether a job can start on the node now, if there is room.
func (n *siteNode) takesJobs() bool {
	return slices.Contains([]string{"idle", "mix", "mixed"}, strings.TrimRight(n.state, "~#+-"))
}

// canRun reports whether the node will run jobs again by itself: it is not down, and not draining.
func (n *siteNode) canRun() bool {
	for _, state := range []string{"down", "drain", "drng", "fail", "unk", "inval", "future", "futr"} {
		if strings.HasPrefix(n.state, state) {
			return false
		}
	}
	return true
}

// goArch returns Go's name of an architecture.
func goArch(name string) string {
	switch name {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return name
}

// parsePartitions reads the output of scontrol show partition.
func parsePartitions(out string) (map[string]partition, error) {
	all := map[string]partition{}
	for _, r := range parseRecords(out, "PartitionName") {
		all[r["PartitionName"]] = partition{
			name: r["PartitionName"], maxTime: parseLimit(r["MaxTime"]), defaultTime: parseLimit(r["DefaultTime"]),
			grace: time.Duration(r.number("GraceTime")) * time.Second, tier: r.number("PriorityTier"),
			preemptMode: strings.ToUpper(r["PreemptMode"]), up: r["State"] == "UP",
		}
	}
	if len(all) == 0 {
		return nil, unreadable("scontrol show partition", out)
	}
	return all, nil
}
