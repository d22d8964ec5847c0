//go:build unix

package slurm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
)

// On a cluster that does not end processes that left their job, the job's script does.
func TestSurvivors(t *testing.T) {
	b := bringUp(t, "PROCTRACK=linuxproc")
	plan, err := gputrain.Plan(t.Context(), b.config(), gputrain.Spec{})
	if err != nil || len(plan) == 0 || !strings.Contains(strings.Join(plan[0].Warnings, "\n"), "ProctrackType is linuxproc") {
		t.Errorf("no warning: %+v, %v", plan, err)
	}
	detached := bash("setsid sh -c 'sleep 1000 & sleep 1000' >/dev/null 2>&1 & sleep 0.2")
	pool, _ := b.open(t, b.config(), gputrain.Spec{MaxReplacements: 1})
	if _, err := pool.Run(detached); err != nil {
		t.Fatal(err)
	}
	first := pool.Nodes()[0].ID
	b.on(t, "ctl", "scancel "+first)
	e2etest.Until(t, "the end of what was detached", func() bool {
		return b.on(t, "c1", "pgrep -f 'slee[p] 1000' || :") == "" && b.on(t, "c2", "pgrep -f 'slee[p] 1000' || :") == ""
	})
	e2etest.Until(t, "a replacement", func() bool { n := pool.Nodes()[0]; return n.ID != first && n.State == gputrain.NodeReady })
	if _, err := pool.Run(detached); err != nil {
		t.Fatal(err)
	}
}

// Limits of a QOS: one that lets a job wait, and one that refuses it. Ended jobs are known by the accounting.
func TestAccounting(t *testing.T) {
	b := bringUp(t, "ACCOUNTING=1")
	for qos, text := range map[string]string{"small": "QOSMaxGRESPerUser", "strict": "QOSMaxGRESPerUser"} {
		cfg := b.config()
		cfg.QOS, cfg.Account, cfg.TimeLimit = qos, "lab", 10*time.Minute
		pool, err := gputrain.Open(t.Context(), cfg, gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2))})
		if err == nil {
			pool.Close()
		}
		if !errors.Is(err, gputrain.ErrQuota) || !strings.Contains(err.Error(), text) {
			t.Errorf("QOS %s: %v", qos, err)
		}
		b.wantNothing(t)
	}
	cfg := b.config()
	cfg.Account = "nobody"
	if pool, err := gputrain.Open(t.Context(), cfg, gputrain.Spec{}); !errors.Is(err, gputrain.ErrAuth) {
		if err == nil {
			pool.Close()
		}
		t.Errorf("an account that does not exist: %v", err)
	}

	d, req := b.openDriver(t, b.config(), "pool-past")
	got, err := d.Launch(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	id := got[0].ID
	e2etest.Until(t, "the job to run", func() bool { return describe(t, d, id).State == driver.InstanceRunning })
	b.on(t, "ctl", "scancel "+id)
	e2etest.Until(t, "the job to be forgotten", func() bool {
		return b.on(t, "ctl", "squeue --noheader --states=all --format=%i | grep -c -x "+id+" || :") == "0"
	})
	time.Sleep(2 * time.Second) // PollInterval
	if in := describe(t, d, id); in.State != driver.InstanceTerminated || !strings.Contains(in.StateReason, "CANCELLED by") {
		t.Errorf("by the accounting: %v, %q", in.State, in.StateReason)
	}
}

func describe(t testing.TB, d driver.Driver, id string) driver.Instance {
	t.Helper()
	found, err := d.Describe(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}
