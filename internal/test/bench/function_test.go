package bench

import (
	"context"
	"fmt"
	"net/rpc"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain"
)

var increment = gputrain.Func("increment", func(_ context.Context, x int) (int, error) { return x + 1, nil })

// functions measures calls of a trivial function on one node, one after another and with many in
// flight.
func functions(t *testing.T, l *lab) {
	const lanes = 64
	pool, raw := l.pool(t, gputrain.Spec{Concurrency: lanes}, l.machines[0]), l.raw(t, l.machines[0])
	plain, coalesced := l.netRPC(t, raw, false), l.netRPC(t, raw, true)
	call := func(c *rpc.Client) error {
		var y int
		if err := c.Call("Increment.Do", 1, &y); err != nil {
			return err
		}
		return check(y)
	}
	ours := func() error {
		y, err := increment.Run(pool, 1)
		if err != nil {
			return err
		}
		return check(y)
	}
	one := work{
		name: "one function call, p50", unit: seconds, turns: l.size.turns, n: 4 * l.size.latencies,
		by: []contender{
			{"gputrain", 0, func(n int) ([]float64, error) { return each(n, ours) }},
			{"net/rpc with gob over SSH exec stdio", 1.5, func(n int) ([]float64, error) {
				return each(n, func() error { return call(plain) })
			}},
		},
	}
	many := work{
		name: fmt.Sprintf("function calls, %d in flight on one node", lanes), unit: perSecond, turns: l.size.turns, n: l.size.calls,
		by: []contender{
			{"gputrain", 0, func(n int) ([]float64, error) {
				ins := make([]int, n)
				for i := range ins {
					ins[i] = i
				}
				return rate(float64(n), func() error {
					outs, err := increment.Gather(pool, ins...)
					for i, y := range outs {
						if err == nil && y != i+1 {
							return errWrong
						}
					}
					return err
				})
			}},
			{"net/rpc with gob, writes coalesced both ways", 0.5, func(n int) ([]float64, error) {
				return rate(float64(n), func() error { return inFlight(n, lanes, func(int) error { return call(coalesced) }) })
			}},
			{"gputrain, each call a Run of its own", 0, func(n int) ([]float64, error) {
				return rate(float64(n), func() error { return inFlight(n, lanes, func(int) error { return ours() }) })
			}},
		},
	}
	// The other programs measure the time themselves.
	join := func(name string, part int, limit float64, cmd *exec.Cmd) {
		peer, said := l.child(t, cmd)
		if peer == nil {
			t.Errorf("%s did not start: %s", name, said)
			l.table.leaveOut(name, "it did not start")
			return
		}
		name += " " + said
		one.by = append(one.by, contender{name, 0, func(n int) ([]float64, error) { return peer.figures("latency %d", (n+part-1)/part) }})
		many.by = append(many.by, contender{name, limit, func(n int) ([]float64, error) { return peer.figures("rate %d %d", max(n/part, 1), lanes) }})
	}
	if *bigmachineFlag != "" {
		join("bigmachine", 1, 1.5, exec.Command(*bigmachineFlag))
	} else {
		l.table.leaveOut("bigmachine", "its program was not given (compare.sh builds it)")
	}
	if err := exec.Command(*pythonFlag, "-c", "import distributed").Run(); err == nil {
		script, _ := filepath.Abs("dask_peer.py")
		join("dask", 20, 25, exec.Command(*pythonFlag, script)) // slow: fewer calls suffice
	} else {
		l.table.leaveOut("dask", "not installed (package python3-distributed)")
	}
	l.measure(t, one)
	l.measure(t, many)
}

func check(y int) error {
	if y != 2 {
		return errWrong
	}
	return nil
}
