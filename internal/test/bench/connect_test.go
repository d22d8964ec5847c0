package bench

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	xssh "golang.org/x/crypto/ssh"
)

// connect measures the time to connect to a node without a connection.
func connect(t *testing.T, l *lab) {
	machines := append([]*machine(nil), l.machines...)
	for len(machines) < l.size.fresh {
		machines = append(machines, newMachine(t, len(machines)))
	}
	machines = machines[:l.size.fresh]
	one := l.machines[0]
	client := l.openssh(t, one)

	l.measure(t, work{
		name: fmt.Sprintf("connect %d nodes at once, and make them ready", len(machines)), unit: seconds, turns: l.size.heavyTurns, n: len(machines),
		by: []contender{
			{"gputrain", 0, func(n int) ([]float64, error) { return l.openAndClose(t, nil, machines[:n]...) }},
			{"raw x/crypto/ssh, connected alone", 1.5, func(n int) ([]float64, error) { return dialAll(machines[:n]) }},
		},
	})
	l.measure(t, work{
		name: "connect one node and run its first command, p50", unit: seconds, turns: l.size.turns, n: (l.size.latencies + 9) / 10,
		by: []contender{
			{"gputrain", 0, func(n int) ([]float64, error) {
				return repeat(n, func() ([]float64, error) { return l.openAndClose(t, []gputrain.Task{gputrain.Cmd("true")}, one) })
			}},
			{"plain x/crypto/ssh dial and exec", 0.5, func(n int) ([]float64, error) {
				return each(n, func() error {
					c, err := one.dial()
					if err != nil {
						return err
					}
					defer c.Close()
					return session(c, "true", nil, nil)
				})
			}},
			{"OpenSSH", 0, func(n int) ([]float64, error) {
				return each(n, func() error { return run(l.ctx, nil, "", "ssh", "-F", client.cold, one.name, "true") })
			}},
		},
	})
}

// openAndClose measures the time to open a pool and run its first tasks, if any, without the time
// to close it.
func (l *lab) openAndClose(t *testing.T, tasks []gputrain.Task, machines ...*machine) ([]float64, error) {
	start := time.Now()
	pool, err := l.open(t, gputrain.Spec{}, nil, machines...)
	if err != nil {
		return nil, err
	}
	if len(tasks) > 0 {
		_, err = pool.Gather(tasks...)
	}
	took := time.Since(start)
	return []float64{took.Seconds()}, errors.Join(err, pool.Close())
}

// dialAll measures the time to connect to all machines at once.
func dialAll(machines []*machine) ([]float64, error) {
	clients := make([]*xssh.Client, len(machines))
	faults := make([]error, len(machines))
	start := time.Now()
	var wg sync.WaitGroup
	for i, m := range machines {
		wg.Go(func() { clients[i], faults[i] = m.dial(fastest) })
	}
	wg.Wait()
	took := time.Since(start)
	for _, c := range clients {
		if c != nil {
			c.Close()
		}
	}
	return []float64{took.Seconds()}, errors.Join(faults...)
}

// repeat returns the samples of n calls.
func repeat(n int, do func() ([]float64, error)) ([]float64, error) {
	var all []float64
	for range n {
		got, err := do()
		if err != nil {
			return nil, err
		}
		all = append(all, got...)
	}
	return all, nil
}
