package bench

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	xssh "golang.org/x/crypto/ssh"
)

// oneCommand measures the time of a command on a warm node.
func oneCommand(t *testing.T, l *lab) {
	const oneWay = 10 * time.Millisecond
	near := l.machines[0]
	for _, m := range []*machine{near, near.far(t, l, oneWay)} {
		pool, raw, client := l.pool(t, gputrain.Spec{}, m), l.raw(t, m), l.openssh(t, m)
		w := work{
			name: "one command, p50", unit: seconds, turns: l.size.turns, n: l.size.latencies,
			by: []contender{
				{"gputrain", 0, func(n int) ([]float64, error) {
					return each(n, func() error { _, err := pool.Run(gputrain.Cmd("true")); return err })
				}},
				{"raw x/crypto/ssh session", 2.5, func(n int) ([]float64, error) {
					return each(n, func() error { return session(raw, "true", nil, nil) })
				}},
				{"OpenSSH with ControlMaster", 0, func(n int) ([]float64, error) {
					return each(n, func() error { return run(l.ctx, nil, "", "ssh", "-F", client.warm, m.name, "true") })
				}},
			},
		}
		if m != near {
			w.name, w.by[1].limit = "one command at 20 ms round trip, p50", 1
			w.by = append(w.by, stated("one round trip", (2*oneWay).Seconds(), 1.5))
		}
		l.measure(t, w)
	}
}

// manyCommands measures trivial commands over all nodes, four at once on each.
func manyCommands(t *testing.T, l *lab) {
	const atOnce = 4
	pool, client := l.pool(t, gputrain.Spec{Concurrency: atOnce}, l.machines...), l.openssh(t, l.machines...)
	var raw []*xssh.Client
	var names []string
	for _, m := range l.machines {
		raw = append(raw, l.raw(t, m))
		names = append(names, fmt.Sprint(atOnce, "/", m.name)) // CPUs, so that parallel does not ask
	}
	// A contender with slow commands runs only a part of them.
	parallel := func(config string, n int) ([]float64, error) {
		return rate(float64(n), func() error {
			return run(l.ctx, nil, strings.Repeat("x\n", n), "parallel", "--will-cite", "--ssh", "ssh -F "+config,
				"-S", strings.Join(names, ","), "-j", fmt.Sprint(atOnce), "-n0", "true")
		})
	}
	w := work{
		name: fmt.Sprintf("%d commands over %d nodes, %d at once on each", l.size.commands, len(l.machines), atOnce),
		unit: perSecond, turns: l.size.heavyTurns, n: l.size.commands,
		by: []contender{
			{"gputrain", 0, func(n int) ([]float64, error) {
				tasks := make([]gputrain.Task, n)
				for i := range tasks {
					tasks[i] = gputrain.Cmd("true")
				}
				return rate(float64(n), func() error { _, err := pool.Gather(tasks...); return err })
			}},
			{"raw x/crypto/ssh fan-out", 0.9, func(n int) ([]float64, error) {
				return rate(float64(n), func() error {
					return inFlight(n, atOnce*len(raw), func(lane int) error { return session(raw[lane%len(raw)], "true", nil, nil) })
				})
			}},
		},
	}
	if l.has("parallel", "parallel") {
		w.by = append(w.by,
			contender{"GNU parallel with ControlMaster", 8, func(n int) ([]float64, error) { return parallel(client.warm, n) }},
			contender{"GNU parallel", 0, func(n int) ([]float64, error) { return parallel(client.cold, (n+19)/20) }})
	}
	if l.has("pdsh", "pdsh") {
		w.by = append(w.by, contender{"pdsh with ControlMaster", 0, func(n int) ([]float64, error) {
			visits := make([]string, (n+3)/4)
			for i := range visits {
				visits[i] = fmt.Sprintf("%s-%d", l.machines[i%len(l.machines)].name, i)
			}
			return rate(float64(len(visits)), func() error {
				return run(l.ctx, []string{"PDSH_SSH_ARGS=-F " + client.warm + " %h"}, "",
					"pdsh", "-R", "ssh", "-S", "-f", fmt.Sprint(atOnce*len(l.machines)), "-w", strings.Join(visits, ","), "true")
			})
		}})
	}
	l.measure(t, w)
}

// inFlight calls do n times in concurrent lanes. Each lane waits for a call before the next one.
func inFlight(n, lanes int, do func(lane int) error) error {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	var once sync.Once
	var failed error
	for lane := range lanes {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := do(lane); err != nil {
					once.Do(func() { failed = err })
					left.Store(0)
				}
			}
		})
	}
	wg.Wait()
	return failed
}
