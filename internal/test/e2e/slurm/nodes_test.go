//go:build unix

package slurm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// hostOf returns the host of a pool's node.
func hostOf(t testing.TB, pool *gputrain.Compute, rank int) string {
	t.Helper()
	task := gputrain.Cmd("hostname")
	task.Target = gputrain.OnRank(rank)
	r, err := pool.Run(task)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(r.Stdout))
}

// An administrator drains a node: the job there goes on, and new ones go elsewhere.
func TestDrained(t *testing.T) {
	b := common(t)
	pool, _ := b.open(t, b.config(), gputrain.Spec{Accelerator: accelerators.A100()})
	host := hostOf(t, pool, 0)
	b.on(t, "ctl", "scontrol update nodename="+host+" state=drain reason=test")
	t.Cleanup(func() { b.on(t, "ctl", "scontrol update nodename="+host+" state=resume") })
	other, _ := b.open(t, b.config(), gputrain.Spec{Accelerator: accelerators.A100()})
	if at := hostOf(t, other, 0); at == host {
		t.Errorf("a new job runs on %s, which is drained", at)
	}
	if at := hostOf(t, pool, 0); at != host {
		t.Errorf("the node is at %s, and was at %s", at, host)
	}
	plan, err := gputrain.Plan(t.Context(), b.config(), gputrain.Spec{Accelerator: accelerators.A100(), Nodes: 3})
	if err != nil || len(plan) == 0 || !strings.Contains(strings.Join(plan[0].Warnings, "\n"), "there is room for 1 now") {
		t.Errorf("%+v, %v", plan, err)
	}
}

// A compute node is lost: Slurm notices it after a while, and the pool replaces its node.
func TestNodeLost(t *testing.T) {
	b := common(t)
	pool, ev := b.open(t, b.wide(), gputrain.Spec{Accelerator: accelerators.A100(), Nodes: 2, MaxReplacements: 2})
	lost := -1
	for rank := range 2 {
		if hostOf(t, pool, rank) == "c2" {
			lost = rank
		}
	}
	run(t, "", "docker", "kill", b.name+"-c2")
	t.Cleanup(func() { b.revive(t, "c2") })
	e2etest.Until(t, "the node to be lost", func() bool { return ev.has(fmt.Sprintf(`node lost node=%d`, lost)) })
	if !ev.has(`node lost .*NODE_FAIL`) {
		t.Error("no event has Slurm's word for it")
	}
	b.revive(t, "c2")
	e2etest.Until(t, "a replacement", func() bool { return pool.Nodes()[lost].State == gputrain.NodeReady })
	if results, err := pool.Broadcast(gputrain.Cmd("true")); err != nil || len(results) != 2 {
		t.Errorf("%+v, %v", results, err)
	}
}

// revive starts a compute node that was killed, and waits until it takes jobs.
func (b *testbed) revive(t testing.TB, host string) {
	t.Helper()
	run(t, "", "docker", "start", b.name+"-"+host)
	e2etest.Until(t, host+" to take jobs", func() bool {
		state := b.on(t, "ctl", "sinfo --noheader --nodes="+host+" --partition=gpu --format=%t")
		return state == "idle" || state == "mix"
	})
}

// A job of a partition with priority takes the GPUs of a pool on spot. Slurm tells the end of its grace time at once.
func TestPreempted(t *testing.T) {
	b := common(t)
	b.preempts(t)
}

// The same, on a site that sends the batch script a signal.
func TestPreemptedWithSignal(t *testing.T) {
	b := common(t)
	change := func(to string) {
		for _, host := range []string{"ctl", "c1", "c2"} {
			b.on(t, host, "sed -i '/^SlurmctldParameters/d' /etc/slurm/slurm.conf; "+to)
		}
		b.on(t, "ctl", "scontrol reconfigure")
	}
	change("echo SlurmctldParameters=preempt_send_user_signal >>/etc/slurm/slurm.conf")
	t.Cleanup(func() { change(":") })
	d, err := b.scavenge().Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if notice := d.Capabilities().PreemptionNotice; notice != 10*time.Second {
		t.Errorf("PreemptionNotice is %v; the grace time is 10 s", notice)
	}
	d.Close()
	b.preempts(t)
}

func (b *testbed) preempts(t *testing.T) {
	pool, ev := b.open(t, b.scavenge(), gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2)), Allocation: gputrain.Spot, MaxReplacements: 1})
	if pool.Nodes()[0].Labels()["market"] != "spot" {
		t.Errorf("%+v is not spot", pool.Nodes()[0])
	}
	var others []string
	for range 2 { // all GPUs
		others = append(others, b.submit(t, "--partition=gpu --gres=gpu:a100:2 --mem=1G --time=10"))
	}
	end := func() { b.on(t, "ctl", "scancel "+strings.Join(others, " ")) }
	t.Cleanup(end)
	e2etest.Until(t, "the preemption", func() bool { return ev.has(`node lost .*preempted`) })
	if !ev.has(`preemption notice`) {
		t.Error("no event gave notice of the preemption")
	}
	end()
	e2etest.Until(t, "a replacement", func() bool { return pool.Nodes()[0].State == gputrain.NodeReady })
}

// A job reaches the time limit of its partition.
func TestTimeLimit(t *testing.T) {
	b := common(t)
	cfg := b.config()
	cfg.TimeLimit = time.Minute
	pool, ev := b.open(t, cfg, gputrain.Spec{MaxReplacements: 1})
	first := pool.Nodes()[0].ID
	e2etest.Until(t, "the end of the first job", func() bool { return ev.has(`node lost .*`) })
	if !ev.has(`node lost .*(TIMEOUT: its time limit has passed|COMPLETING)`) {
		t.Error("no event says why")
	}
	e2etest.Until(t, "a replacement", func() bool { n := pool.Nodes()[0]; return n.ID != first && n.State == gputrain.NodeReady })
}
