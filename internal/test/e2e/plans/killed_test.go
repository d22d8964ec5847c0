//go:build unix

package plans

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/seeds"
	"github.com/gputrain/gputrain/internal/test/sidebyside"
	"github.com/gputrain/gputrain/providers/sim"
)

// restless is a program that opens pools in a simulated cloud, one after the other, until it is killed.
type restless struct{ Endpoint, State string }

var restlessPrograms = e2etest.NewRole("restless", func(p restless) error {
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

// TestKilledPrograms kills real processes at random moments while cloud calls fail. Reap then ends everything that they
// left.
//
// GPUTRAIN_KILLS sets the seeds: their number, or the first and the last.
func TestKilledPrograms(t *testing.T) {
	kills := 10
	if testing.Short() {
		kills = 3
	}
	first, kills := seeds.FromEnv(t, "GPUTRAIN_KILLS", kills)
	var sum seeds.Tally
	turn := make(chan bool, 2) // limits the number of programs at a time
	var tests []sidebyside.Test
	for seed := first; seed < first+uint64(kills); seed++ {
		tests = append(tests, sidebyside.Test{Name: fmt.Sprint("seed ", seed), Run: func(t *testing.T) { killOne(t, seed, turn, &sum) }})
	}
	sidebyside.Run(t, kills, tests)
	t.Logf("%d programs killed: %v", kills, &sum)
}

// killOne kills a program, then calls Reap. The wait for requests that are still in flight is long, so that other seeds
// run meanwhile.
func killOne(t *testing.T, seed uint64, turn chan bool, sum *seeds.Tally) {
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
	sum.Add(len(cloud.Live()), "resources left")
	cloud.Calm()
	ended, err := gputrain.StateDir(state).Reap(t.Context(), sim.Config{Cloud: cloud})
	if err != nil {
		t.Error(err)
	}
	sum.Add(len(ended), "resources reaped")
	time.Sleep(500 * time.Millisecond)
	if live := cloud.Live(); len(live) > 0 {
		t.Errorf("these resources are left: %+v", live)
	}
	if doubles := cloud.Doubles(); len(doubles) > 0 {
		t.Errorf("two machines of one name: %v", doubles)
	}
	if left, err := gputrain.StateDir(state).Pools(); err != nil || len(left) > 0 {
		t.Errorf("the ledgers: %+v, %v", left, err)
	}
}

// killRestless waits for its turn, runs a program, and kills it at a random moment.
func killRestless(t *testing.T, p restless, cloud *sim.Cloud, rng *rand.Rand, turn chan bool) {
	turn <- true
	defer func() { <-turn }()
	c := restlessPrograms.Start(t, p)
	e2etest.Until(t, "its first call", func() bool { return len(cloud.Log()) > 0 }) // its start takes a while
	time.Sleep(time.Duration(rng.Int64N(int64(800 * time.Millisecond))))
	c.Kill()
	if end := c.Cmd.ProcessState.String(); end != "signal: killed" {
		t.Fatalf("the program ended by itself: %s\n%s", end, c.Log.String())
	}
}
