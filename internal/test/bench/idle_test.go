package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/ssh"
)

// idle measures the cost of an idle node, which has run something before, for the program that holds the pool. Here,
// that program is a separate process.
func idle(t *testing.T, l *lab) {
	if _, err := resident(); err != nil {
		l.table.leaveOut("an idle node", err.Error())
		return
	}
	machines := append([]*machine(nil), l.machines...)
	for len(machines) < l.size.fresh {
		machines = append(machines, newMachine(t, len(machines)))
	}
	config, err := json.Marshal(hosts(machines[:l.size.fresh]))
	if err != nil {
		t.Fatal(err)
	}
	ask := func() ([]float64, error) {
		c, said := l.child(t, self("idle"))
		if c == nil {
			return nil, errors.New(said)
		}
		defer c.end()
		got, err := c.figures("%s", config)
		if err == nil && len(got) != 2 {
			err = errWrong
		}
		return got, err
	}
	var last []float64 // both figures come from one process
	l.measure(t, work{
		name: fmt.Sprintf("an idle node of %d: memory in the client", l.size.fresh), unit: kibibytes, turns: l.size.heavyTurns,
		by: []contender{
			{"gputrain", 0, func(int) ([]float64, error) {
				var err error
				if last, err = ask(); err != nil {
					return nil, err
				}
				return last[:1], nil
			}},
			stated("what is allowed", 250, 1),
		},
	})
	if last == nil {
		return
	}
	l.measure(t, work{
		name: "an idle node: goroutines in the client", unit: goroutines, turns: 1,
		by: []contender{stated("gputrain", last[1], 0), stated("what is allowed", 15, 1)},
	})
}

// serveIdle is the client's process. It reads the hosts, opens a pool on them, prints the KiB and goroutines for each
// node, and closes the pool at the end of stdin.
func serveIdle() error {
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var config ssh.Config
	if err := json.Unmarshal(line, &config); err != nil {
		return err
	}
	before, err := resident()
	if err != nil {
		return err
	}
	goroutinesBefore := runtime.NumGoroutine()
	nodes := len(config.Hosts)
	return gputrain.With(context.Background(), config, gputrain.Spec{Nodes: nodes}, func(_ context.Context, pool *gputrain.Compute) error {
		if _, err := pool.Broadcast(gputrain.Cmd("true")); err != nil {
			return err
		}
		time.Sleep(2 * time.Second)
		after, err := resident()
		if err != nil {
			return err
		}
		fmt.Println(float64(after-before)/float64(nodes), float64(runtime.NumGoroutine()-goroutinesBefore)/float64(nodes))
		in.ReadByte()
		return nil
	})
}

// resident returns the resident memory of this process, in KiB.
func resident() (int64, error) {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0, fmt.Errorf("the memory of this process: %w", err)
	}
	return kib, nil
}
