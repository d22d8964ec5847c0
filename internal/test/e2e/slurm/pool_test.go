//go:build unix

package slurm

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
	"github.com/gputrain/gputrain/providers/slurm"
)

// open opens a pool whose events are recorded. It is closed at the end of the test, and must leave nothing.
func (b *testbed) open(t testing.TB, cfg slurm.Config, spec gputrain.Spec) (*gputrain.Compute, *events) {
	t.Helper()
	ev := &events{}
	pool, err := gputrain.Open(t.Context(), cfg, spec, gputrain.WithEvents(ev.add), gputrain.WithResultsDir(t.TempDir()))
	if err != nil {
		t.Fatalf("%v\n%s", err, ev)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		b.wantNothing(t)
		if t.Failed() {
			t.Logf("events:\n%s", ev)
		}
	})
	return pool, ev
}

// ofTwoNodes is a spec for jobs of which two do not fit on one node, by wide.
func ofTwoNodes() gputrain.Spec {
	return gputrain.Spec{Accelerator: accelerators.A100(), Nodes: 2, Network: gputrain.NetworkPrivate, TTL: time.Hour}
}

// wide returns a configuration whose jobs have most of a node's processors.
func (b *testbed) wide() slurm.Config {
	cfg := b.config()
	cfg.CPUsPerGPU = 5
	return cfg
}

// meeting is a program of two ranks: the first tells the second its host.
const meeting = `
import os, socket, time
here, addr = socket.gethostname(), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    s = socket.create_server(("", addr[1]))
    c, _ = s.accept()
    c.sendall(here.encode())
    c.close()
else:
    for _ in range(300):
        try:
            there = socket.create_connection(addr, 10).recv(100).decode()
            break
        except OSError:
            time.sleep(0.1)
    assert there and there != here, (there, here)
`

// A gang of processes on two nodes, which meet at the address of one of them.
func TestGang(t *testing.T) {
	b := common(t)
	pool, _ := b.open(t, b.wide(), ofTwoNodes())
	r, err := pool.Train(gputrain.Training{Nodes: 2, Task: gputrain.Cmd("python3", "-c", meeting)})
	if err != nil || len(r.Ranks) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	hosts := map[string]bool{}
	results, err := pool.Broadcast(gputrain.Cmd("hostname"))
	for _, r := range results {
		hosts[strings.TrimSpace(string(r.Stdout))] = true
	}
	if err != nil || !hosts["c1"] || !hosts["c2"] {
		t.Errorf("hosts are %v, %v", hosts, err)
	}
}

// A task sees the GPU of its job alone.
func TestGPUsOfTheJob(t *testing.T) {
	b := common(t)
	pool, _ := b.open(t, b.config(), gputrain.Spec{Accelerator: accelerators.A100()})
	r, err := pool.Run(bash(`for d in /dev/fakegpu0 /dev/fakegpu1; do cat $d 2>&1 || :; done; echo "$CUDA_VISIBLE_DEVICES"`))
	said := string(r.Stdout)
	if err != nil || strings.Count(said, "Operation not permitted") != 1 || strings.Count(said, "No such device or address") != 1 || !strings.HasSuffix(said, "\n0\n") {
		t.Errorf("%q, %v", said, err)
	}
}

func TestPlan(t *testing.T) {
	b := common(t)
	cfg := b.config()
	cfg.Partitions = []string{"gpu", "scavenge", "short"}
	plan, err := gputrain.Plan(t.Context(), cfg, gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2)), Nodes: 2, Allocation: gputrain.CheapestAllocation, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range plan {
		kind := "on demand"
		if c.Offer.Spot {
			kind = "spot"
		}
		got = append(got, c.Offer.Region+" "+c.Offer.InstanceType+" "+kind)
	}
	slices.Sort(got)
	if want := []string{"gpu gpu:a100:2 on demand", "scavenge gpu:a100:2 spot", "short gpu:a100:2 on demand"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, c := range plan {
		if c.Offer.Region == "short" && !strings.Contains(strings.Join(c.Warnings, "\n"), "ends after 5m0s") {
			t.Errorf("no word about the limit of partition short: %q", c.Warnings)
		}
	}
	if pool, err := gputrain.Open(t.Context(), cfg, gputrain.Spec{Accelerator: accelerators.H100()}); !errors.Is(err, gputrain.ErrNoOffers) {
		if err == nil {
			pool.Close()
		}
		t.Errorf("of what the cluster does not have: %v", err)
	}
}

// The own cluster first, and another provider when it is full.
func TestFirstOfWhenFull(t *testing.T) {
	b := common(t)
	for range 2 {
		id := b.submit(t, "--gres=gpu:a100:2 --mem=1G --time=10")
		t.Cleanup(func() { b.on(t, "ctl", "scancel "+id) })
	}
	e2etest.Until(t, "the cluster to be full", func() bool {
		return b.on(t, "ctl", "squeue --noheader --states=running --format=%i | wc -l") == "2"
	})
	cfg := b.config()
	cfg.QueueTimeout = 12 * time.Second // the scheduler looks at the queue every five seconds
	cloud := sim.New(sim.Options{Offers: []gputrain.Offer{{InstanceType: "rented", Region: "elsewhere", Accelerator: accelerators.A100(), HourlyUSD: driver.USD(2)}}})
	t.Cleanup(func() { cloud.Close() })
	ev := &events{}
	pool, err := gputrain.Open(t.Context(), gputrain.FirstOf(cfg, sim.Config{Cloud: cloud}), gputrain.Spec{Accelerator: accelerators.A100()}, gputrain.WithEvents(ev.add))
	if err != nil {
		t.Fatalf("%v\n%s", err, ev)
	}
	if nodes := pool.Nodes(); len(nodes) != 1 || nodes[0].Provider != "sim" {
		t.Errorf("nodes are %+v", nodes)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if !ev.has(`wait machine .*queued(: Resources|: Priority|; the queue expects)`) || !ev.has(`no capacity: it has waited in the queue`) {
		t.Errorf("no event says that the job waits, and then that it does no longer:\n%s", ev)
	}
	b.wantNothing(t)
}

// bash returns a task that runs lines of bash.
func bash(lines string) gputrain.Task { return gputrain.Cmd("bash", "-c", lines) }
