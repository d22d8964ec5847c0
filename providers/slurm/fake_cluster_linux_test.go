package slurm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/providertest"
)

// A cluster is a fake of Slurm at the level of its commands. Its jobs are real processes on this machine: the batch
// scripts that sbatch gets, with a real sshd. Answers are written as the recorded ones in testdata are.
type cluster struct {
	t    testing.TB
	dir  string // shared by the jobs' programs: comments, requests
	bin  string // the jobs' programs
	sshd string
	wg   sync.WaitGroup
	done chan struct{}

	mu         sync.Mutex
	partitions []fakePartition
	nodes      []*fakeNode
	jobs       []*fakeJob
	lastID     int
	stalled    bool
	reason     string // of jobs that wait; empty means Resources
	room       int    // submissions that the account's limit still allows; negative means all
	config     string
	faults     []*injected
	calls      map[providertest.Op]int
	all        int
	accounting map[string]string // lines of sacct by job; nil means that there is none
	rewrites   bool              // a job_submit plugin puts its own comments into jobs
	skew       time.Duration     // of the cluster's clock
}

type fakePartition struct {
	name, maxTime, defaultTime string
	tier                       int
	grace                      int
	isDefault                  bool
	nodes                      []string
}

type fakeNode struct {
	name, state string // the state without jobs: "idle", "drain"
	gres        string // "gpu:a100:4"
	features    string
	gpus, cpus  int
	tmp         string
}

type injected struct {
	op    providertest.Op
	fault providertest.Fault
	left  int // negative means all
}

// newCluster starts a fake with two nodes of four GPUs, which ends with the test.
func newCluster(t testing.TB) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "fakeslurm-") // a test's own folder may have a comma in its name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &cluster{
		t: t, dir: dir, bin: filepath.Join(dir, "bin"), sshd: findSSHD(t), done: make(chan struct{}), room: -1, lastID: 100,
		calls: map[providertest.Op]int{}, config: recordedText(t, "scontrol-show-config.txt"),
		partitions: []fakePartition{
			{name: "gpu", maxTime: "1-00:00:00", defaultTime: "01:00:00", tier: 10, isDefault: true, nodes: []string{"n1", "n2"}},
			{name: "scavenge", maxTime: "UNLIMITED", defaultTime: "00:30:00", tier: 1, grace: 10, nodes: []string{"n1", "n2"}},
			{name: "short", maxTime: "00:05:00", defaultTime: "NONE", tier: 5, nodes: []string{"n2"}},
		},
	}
	for _, name := range []string{"n1", "n2"} {
		n := &fakeNode{name: name, state: "idle", gres: "gpu:a100:4", features: "a100,ib", gpus: 4, cpus: 64, tmp: filepath.Join(dir, name)}
		if err := os.Mkdir(n.tmp, 0o700); err != nil {
			t.Fatal(err)
		}
		c.nodes = append(c.nodes, n)
	}
	c.install()
	c.wg.Go(c.watch)
	t.Cleanup(func() {
		close(c.done)
		c.mu.Lock()
		for _, j := range c.jobs {
			j.kill(c)
		}
		c.mu.Unlock()
		c.wg.Wait()
	})
	return c
}

// opOf returns the operation that a command is the first call of.
func opOf(cmd command) providertest.Op {
	switch cmd.words[0] {
	case "sinfo":
		if slices.Contains(cmd.words, "--Node") {
			return providertest.OpOffers
		}
	case "sbatch":
		return providertest.OpLaunch
	case "squeue":
		return providertest.OpDescribe
	case "scancel":
		return providertest.OpTerminate
	}
	return "another"
}

// same maps operations that are one command.
func same(op providertest.Op) providertest.Op {
	if op == providertest.OpList {
		return providertest.OpDescribe
	}
	return op
}

// inject makes the next calls of an operation fail.
func (c *cluster) inject(op providertest.Op, f providertest.Fault) (remove func()) {
	switch {
	case f.Kind == providertest.Redirected:
		return nil
	case op == providertest.OpPrepare || op == providertest.OpRelease:
		return func() {} // no command is run for them
	}
	in := &injected{op: same(op), fault: f, left: f.Times}
	if in.left == 0 {
		in.left = 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, in)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		in.left = 0
	}
}

// strike counts a command, and returns its fault.
func (c *cluster) strike(cmd command) *providertest.Fault {
	if cmd.words[0] == "date" {
		return nil
	}
	op := opOf(cmd)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[op]++
	c.all++
	for _, in := range c.faults {
		if in.left != 0 && (in.op == providertest.AnyOp || in.op == op) {
			if in.left > 0 {
				in.left--
			}
			return &in.fault
		}
	}
	return nil
}

func (c *cluster) callsOf(op providertest.Op) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if op == providertest.AnyOp {
		return c.all
	}
	return c.calls[same(op)]
}

// run runs a command of Slurm. undone means that it changes nothing.
func (c *cluster) run(cmd command, undone bool) printed {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schedule()
	args := cmd.words[1:]
	switch cmd.words[0] {
	case "date":
		return printed{out: fmt.Sprintf("%d\n", time.Now().Add(c.skew).Unix())}
	case "sinfo":
		return c.sinfo(args)
	case "scontrol":
		return c.scontrol(args)
	case "sbatch":
		return c.sbatch(args, cmd.input)
	case "squeue":
		return c.squeue(args)
	case "sacct":
		return c.sacct(args)
	case "scancel":
		if !undone {
			c.scancel(args)
		}
		return printed{}
	}
	return printed{stderr: "sh: 4: " + cmd.words[0] + ": not found\n", code: 127}
}

func (c *cluster) sinfo(args []string) printed {
	if slices.Contains(args, "--version") {
		return printed{out: "slurm-wlm 22.05.8\n"}
	}
	if !slices.Contains(args, "--format="+sinfoFormat) {
		return printed{stderr: "sinfo: error: Invalid format\n", code: 1}
	}
	var b strings.Builder
	for _, p := range c.partitions {
		star := ""
		if p.isDefault {
			star = "*"
		}
		for _, n := range c.nodes {
			if slices.Contains(p.nodes, n.name) {
				used, _ := c.used(n)
				state := n.state
				if state == "idle" && used > 0 {
					state = "mix"
				}
				fmt.Fprintln(&b, strings.Join([]string{n.name, p.name + star, state, n.gres, strconv.Itoa(n.cpus), "256000", n.features, sinfoLimit(p.maxTime), "n/a"}, separator))
			}
		}
	}
	return printed{out: b.String()}
}

func sinfoLimit(text string) string {
	if text == "UNLIMITED" {
		return "infinite"
	}
	return text
}

// used returns the GPUs and CPUs of a node that jobs have.
func (c *cluster) used(n *fakeNode) (gpus, cpus int) {
	for _, j := range c.jobs {
		if j.node == n && j.holds() {
			gpus, cpus = gpus+j.gpus, cpus+j.cpus
		}
	}
	return gpus, cpus
}

func (c *cluster) scontrol(args []string) printed {
	text := strings.Join(args, " ")
	switch {
	case text == "show config":
		return printed{out: c.config}
	case strings.HasSuffix(text, "show partition"):
		var b strings.Builder
		for _, p := range c.partitions {
			fmt.Fprintf(&b, "PartitionName=%s AllowGroups=ALL Default=%s DefaultTime=%s GraceTime=%d MaxTime=%s PriorityTier=%d PreemptMode=CANCEL State=UP TotalNodes=%d\n",
				p.name, map[bool]string{true: "YES", false: "NO"}[p.isDefault], p.defaultTime, p.grace, p.maxTime, p.tier, len(p.nodes))
		}
		return printed{out: b.String()}
	case strings.HasSuffix(text, "show node"):
		var b strings.Builder
		for _, n := range c.nodes {
			gpus, cpus := c.used(n)
			fmt.Fprintf(&b, "NodeName=%s Arch=x86_64 CPUAlloc=%d CPUTot=%d Gres=%s GresUsed=gpu:a100:%d(IDX:N/A) OS=Linux 6.1 #1 SMP  RealMemory=256000 AllocMem=0 CfgTRES=cpu=%d,mem=256000M,billing=%d AllocTRES=cpu=%d\n",
				n.name, cpus, n.cpus, n.gres, gpus, n.cpus, n.cpus, cpus)
		}
		return printed{out: b.String()}
	case args[0] == "update":
		return c.update(strings.TrimPrefix(args[1], "JobId="), strings.TrimPrefix(args[2], "Comment="))
	case strings.Contains(text, "show job"):
		if j := c.job(args[len(args)-1]); j != nil {
			return printed{out: j.record()}
		}
		return printed{stderr: "slurm_load_jobs error: Invalid job id specified\n", code: 1}
	}
	return printed{stderr: "invalid keyword: " + text + "\n", code: 1}
}

// watch does what jobs ask for by their own scancel.
func (c *cluster) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-c.done:
			return
		case <-tick.C:
		}
		text, _ := os.ReadFile(filepath.Join(c.dir, "scancel")) // none: no job has asked
		if len(text) > 0 && os.Remove(filepath.Join(c.dir, "scancel")) == nil {
			c.mu.Lock()
			c.scancel(strings.Fields(string(text)))
			c.mu.Unlock()
		}
	}
}
