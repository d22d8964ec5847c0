//go:build unix

package training

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/trainimage"
	"github.com/gputrain/gputrain/providers/container"
)

// A benchmark waits for patience until torchrun goes on.
const patience = time.Minute

// worker matches the command of a rank, also of torchrun's, and not torchrun's own.
const worker = "^[^ ]*python3[.0-9]*( -u)? testdata/"

// Strikes hit the third of four nodes.
var strikes = []struct {
	name string
	f    func(testing.TB, gputrain.Node)
}{
	{"rank", func(t testing.TB, n gputrain.Node) { kill(t, n, "-f", worker) }},
	{"node", func(t testing.TB, n gputrain.Node) { e2etest.Docker(t, "kill", n.ID) }},
	{"hang", func(t testing.TB, n gputrain.Node) { e2etest.Docker(t, "exec", n.ID, "pkill", "-USR1", "-f", worker) }},
}

// BenchmarkRecovery has a rank of a gang of four containers killed, a node killed, and a rank hang, with a step each 0.2 s
// and StallTimeout at 5 s. It reports the seconds until the first step after that: of Train, with a program that starts at
// once and with PyTorch; of a pool that is closed and opened again; and of torchrun alone, whose rendezvous is c10d with
// two restarts. Zero means that it did not go on within a minute.
func BenchmarkRecovery(b *testing.B) {
	shown := &lines{}
	c := open(b, 4, gputrain.WithOutput(shown, shown))
	number := 0
	training := func(b *testing.B, file string) gputrain.Training {
		number++
		t := program(b, "recovery-"+strconv.Itoa(number), file, map[string]string{"STEPS": "1000", "STEP_SECONDS": "0.2", "GROUP_SECONDS": "1800"})
		t.Restarts = 1
		return t
	}
	for _, strike := range strikes {
		report := func(name string, f func(*testing.B) time.Duration) {
			b.Run(strike.name+"/"+name, func(b *testing.B) {
				var all time.Duration
				for range b.N {
					all += f(b)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(all.Seconds()/float64(b.N), "s/recovery")
			})
		}
		report("train", func(b *testing.B) time.Duration {
			t := training(b, "peers.py")
			t.StallTimeout = 5 * time.Second
			return c.recovery(b, t, strike.f)
		})
		report("everything", func(b *testing.B) time.Duration {
			t := training(b, "peers.py")
			t.StallTimeout = 5 * time.Second
			return everything(b, t, strike.f)
		})
		if strike.name != "hang" { // PyTorch itself takes longer to start than StallTimeout
			report("train-torch", func(b *testing.B) time.Duration {
				return c.recovery(b, training(b, "train.py"), strike.f)
			})
		}
		report("torchrun", func(b *testing.B) time.Duration { return c.torchrun(b, shown, strike.f) })
	}
}

// recovery returns how long it takes a training to go on in its next attempt.
func (c *cluster) recovery(b *testing.B, training gputrain.Training, strike func(testing.TB, gputrain.Node)) time.Duration {
	defer c.start(b, training)()
	began := c.strike(b, training.Task.Name, strike)
	return c.until(b, atStep(training.Task.Name, 2, 1)).Sub(began)
}

// everything is recovery in another pool, after the first one is closed.
func everything(b *testing.B, training gputrain.Training, strike func(testing.TB, gputrain.Node)) time.Duration {
	old := open(b, 4)
	end := old.start(b, training)
	began := old.strike(b, training.Task.Name, strike)
	old.until(b, inState(training.Task.Name, 1, "failing"))
	end()
	if err := old.pool.Close(); err != nil {
		b.Error(err)
	}
	c := open(b, 4)
	defer c.start(b, training)()
	return c.until(b, atStep(training.Task.Name, 1, 1)).Sub(began)
}

// strike strikes the third node of a training that has come to step 5.
func (c *cluster) strike(b *testing.B, name string, strike func(testing.TB, gputrain.Node)) (at time.Time) {
	c.until(b, atStep(name, 1, 5))
	defer func(n gputrain.Node) { strike(b, n) }(c.pool.Nodes()[2])
	return time.Now()
}

// until waits for an event, and returns when it came.
func (c *cluster) until(b *testing.B, wanted func(gputrain.Event) bool) (at time.Time) {
	b.Helper()
	e2etest.Until(b, "an event", func() bool { return c.event(wanted) != nil })
	return c.event(wanted).Time
}

// start starts a training. The returned function ends it.
func (c *cluster) start(b *testing.B, training gputrain.Training) (end func()) {
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { c.pool.WithContext(ctx).Train(training) })
	return func() {
		cancel()
		running.Wait()
	}
}

// torchrun returns how long it takes torchrun to go on, or 0 if it does not.
func (c *cluster) torchrun(b *testing.B, shown *lines, strike func(testing.TB, gputrain.Node)) time.Duration {
	nodes := c.pool.Nodes()
	task := gputrain.Cmd("torchrun", "testdata/train.py")
	task.Env = map[string]string{
		"STEPS": "1000", "STEP_SECONDS": "0.2", "GROUP_SECONDS": "1800",
		"PET_NNODES": "4", "PET_NPROC_PER_NODE": "1", "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": nodes[0].PrivateAddr + ":29400",
		"PET_RDZV_ID": strconv.FormatInt(time.Now().UnixNano(), 10), "PET_MAX_RESTARTS": "2", "PET_MONITOR_INTERVAL": "0.1",
		"PET_REDIRECTS": "9:1", "PET_TEE": "9:1", // Python 3.11 breaks the defaults of torch 1.13
	}
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { c.pool.WithContext(ctx).Broadcast(task) })
	defer func() {
		cancel()
		running.Wait()
		for _, n := range c.pool.Nodes() {
			e2etest.Docker(b, "exec", n.ID, "sh", "-c", "pkill -KILL -f '[t]estdata/train.py'; :")
		}
	}()
	first := time.Now()
	e2etest.Until(b, "step 5", func() bool { return !shown.since(first, "step=5/").IsZero() })
	began := time.Now()
	strike(b, nodes[2])
	for time.Since(began) < patience {
		if at := shown.since(began, "step=1/"); !at.IsZero() {
			return at.Sub(began)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 0
}

// lines are what a pool shows, and when.
type lines struct {
	mu  sync.Mutex
	all []line
}

type line struct {
	at   time.Time
	text string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line{time.Now(), string(p)})
	return len(p), nil
}

// since returns when text was shown first after a time, or zero.
func (l *lines) since(from time.Time, text string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.all {
		if one.at.After(from) && strings.Contains(one.text, text) {
			return one.at
		}
	}
	return time.Time{}
}

// nvidiaSMI is a program in nvidia-smi's place, on a machine with eight devices.
const nvidiaSMI = `#!/usr/bin/python3
import sys, time
values = {"name": "NVIDIA A100-SXM4-80GB", "memory.total": "81920", "memory.used": "40000", "utilization.gpu": "97", "compute_cap": "8.0", "driver_version": "550.90.07"}
fields = next(a for a in sys.argv if a.startswith("--query-gpu=")).partition("=")[2].split(",")
while True:
    for i in range(8):
        print(", ".join({"index": str(i), "uuid": f"GPU-{i}000", "pci.bus_id": f"00000000:{i + 1:02X}:00.0"}.get(f) or values.get(f, "0") for f in fields), flush=True)
    if "-l" not in sys.argv:
        break
    time.sleep(10)
`

// withoutGPUs is Docker, but for the option --gpus, which needs GPUs.
const withoutGPUs = `#!/bin/sh
n=$#
while [ $n -gt 0 ]; do
	case $1 in
	--gpus) shift 2; n=$((n-2)) ;;
	--gpus=*) shift; n=$((n-1)) ;;
	*) set -- "$@" "$1"; shift; n=$((n-1)) ;;
	esac
done
exec docker "$@"
`

// BenchmarkWatching compares a gang of two containers that reports a step each 0.2 s to a pool with a view of its events,
// on nodes with eight devices whose samples are taken, with one that does none of that. It reports the time that its 100
// steps take, and the processor time of the nodes and of this program meanwhile, in percent of that time.
func BenchmarkWatching(b *testing.B) {
	trainimage.Require(b)
	docker, err := exec.LookPath("docker")
	if err != nil {
		b.Fatal(err)
	}
	bin := b.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(bin, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			b.Fatal(err)
		}
		return path
	}
	tool := write("nvidia-smi", nvidiaSMI)
	engine := write("docker", strings.ReplaceAll(withoutGPUs, "docker", docker))
	watched := spec(2)
	watched.Accelerator = accelerators.A100(accelerators.Count(8))
	with := e2etest.OpenContainers(b, container.Config{Binary: engine, GPUs: "all", Image: trainimage.Image, RunArgs: []string{"--volume", tool + ":/usr/local/bin/nvidia-smi:ro"}}, watched,
		gputrain.WithEvents(func(gputrain.Event) {}))
	without := e2etest.OpenContainers(b, container.Config{Image: trainimage.Image}, spec(2))
	type figures struct{ took, cpu time.Duration }
	run := func(pool *gputrain.Compute, silent string) figures {
		task := gputrain.Cmd("python3", "testdata/peers.py")
		task.Env = map[string]string{"STEPS": "100", "STEP_SECONDS": "0.2", "SILENT": silent}
		before := used(b, pool)
		result, err := pool.Train(gputrain.Training{Task: task, ProcessesPerNode: 1})
		if err != nil {
			b.Fatal(err)
		}
		return figures{result.Attempts[0].To.Sub(result.Attempts[0].From), used(b, pool) - before}
	}
	var a, z []figures
	for b.Loop() {
		a = append(a, run(without, "1"))
		z = append(z, run(with, ""))
	}
	median := func(all []figures, of func(figures) time.Duration) time.Duration {
		return slices.Sorted(func(yield func(time.Duration) bool) {
			for _, f := range all {
				if !yield(of(f)) {
					return
				}
			}
		})[len(all)/2]
	}
	took := func(f figures) time.Duration { return f.took }
	cpu := func(f figures) time.Duration { return f.cpu }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(100*(float64(median(z, took))/float64(median(a, took))-1), "%-time")
	b.ReportMetric(100*float64(median(z, cpu)-median(a, cpu))/float64(median(a, took)), "%-cpu")
}

// used returns the processor time of a pool's containers, and of this program.
func used(b *testing.B, pool *gputrain.Compute) (total time.Duration) {
	for _, n := range pool.Nodes() {
		text := e2etest.Docker(b, "exec", n.ID, "sh", "-c", `cat /sys/fs/cgroup/cpuacct/cpuacct.usage 2>/dev/null || sed -n 's/usage_usec \(.*\)/\1000/p' /sys/fs/cgroup/cpu.stat`)
		ns, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		total += time.Duration(ns)
	}
	return total + ownTime(b)
}
