//go:build unix

package gputrain_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

// restless has pools in a simulated cloud, one after the other, until it is killed.
type restless struct{ Endpoint, State string }

var restlessPrograms = newRole("restless", func(p restless) error {
	for seed := uint64(0); ; seed++ {
		rng := rand.New(rand.NewPCG(seed, uint64(os.Getpid())))
		pool, err := gputrain.Open(context.Background(), sim.Config{Endpoint: p.Endpoint}, gputrain.Spec{Nodes: 1 + rng.IntN(4)},
			gputrain.WithStateDir(p.State), gputrain.WithResultsDir(p.State))
		if err != nil {
			continue
		}
		pool.Gather(gputrain.Cmd("sleep", "10ms"), gputrain.Cmd("sleep", "100ms"))
		pool.Close()
	}
})

// TestKilledPrograms kills programs, really, at random moments, while the cloud fails
// them too. Reap then leaves nothing of theirs.
//
// GPUTRAIN_KILLS says how many.
func TestKilledPrograms(t *testing.T) {
	kills := 10
	if s := os.Getenv("GPUTRAIN_KILLS"); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	var sum outcomes
	turn := make(chan bool, 2) // programs at the same time
	var tests []subtest
	for seed := range uint64(kills) {
		tests = append(tests, subtest{fmt.Sprint("seed ", seed), func(t *testing.T) { killOne(t, seed, turn, &sum) }})
	}
	sideBySide(t, kills, tests)
	t.Logf("%d programs killed: %v", kills, &sum)
}

// killOne kills a program, and reaps. The wait for what may still be on its way is
// long, and others have their turn meanwhile.
func killOne(t *testing.T, seed uint64, turn chan bool, sum *outcomes) {
	rng := rand.New(rand.NewPCG(seed, 3))
	cloud := sim.New(sim.Options{
		Seed: seed, Exec: planned, BootTime: 20 * time.Millisecond, BootJitter: 50 * time.Millisecond,
		Latency: 2 * time.Millisecond, ListLag: 100 * time.Millisecond, NoTokens: rng.IntN(2) == 0,
	})
	defer cloud.Close()
	endpoint, err := cloud.Serve()
	if err != nil {
		t.Fatal(err)
	}
	cloud.Inject(sim.Random(seed, 0.3*rng.Float64(), sim.ErrorBefore, sim.ErrorAfter, sim.Lost, sim.Refused, sim.Unavailable, sim.Garbage,
		sim.WithID, sim.Partial, sim.Duplicate, sim.Ignored, sim.Lag))
	state := t.TempDir()
	killRestless(t, restless{endpoint, state}, cloud, rng, turn)
	sum.add(len(cloud.Live()), "resources left")
	cloud.Calm()
	ended, err := gputrain.StateDir(state).Reap(t.Context(), sim.Config{Cloud: cloud})
	if err != nil {
		t.Error(err)
	}
	sum.add(len(ended), "resources reaped")
	time.Sleep(500 * time.Millisecond)
	if live := cloud.Live(); len(live) > 0 {
		t.Errorf("left: %+v", live)
	}
	if doubles := cloud.Doubles(); len(doubles) > 0 {
		t.Errorf("doubles: %v", doubles)
	}
	if left, err := gputrain.StateDir(state).Pools(); err != nil || len(left) > 0 {
		t.Errorf("the ledgers: %+v, %v", left, err)
	}
}

// killRestless runs a program and kills it at any moment, once it is its turn.
func killRestless(t *testing.T, p restless, cloud *sim.Cloud, rng *rand.Rand, turn chan bool) {
	turn <- true
	defer func() { <-turn }()
	c := restlessPrograms.start(t, p)
	until(t, "its first call", func() bool { return len(cloud.Log()) > 0 }) // as it takes a while to start
	time.Sleep(time.Duration(rng.Int64N(int64(800 * time.Millisecond))))
	c.kill()
	if end := c.cmd.ProcessState.String(); end != "signal: killed" {
		t.Fatalf("the program ended by itself: %s\n%s", end, c.log.String())
	}
}
