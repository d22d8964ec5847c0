//go:build unix

package slurm

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
	"github.com/gputrain/gputrain/providers/slurm"
)

// restless is a program that opens pools on the cluster, one after the other, until it is killed.
type restless struct {
	Config slurm.Config
	State  string
}

var restlessPrograms = e2etest.NewRole("restless", func(p restless) error {
	e2etest.Say("begins")
	for seed := uint64(0); ; seed++ {
		rng := rand.New(rand.NewPCG(seed, uint64(os.Getpid())))
		pool, err := gputrain.Open(context.Background(), p.Config, gputrain.Spec{Nodes: 1 + rng.IntN(2), Lease: time.Minute},
			gputrain.WithStateDir(p.State), gputrain.WithResultsDir(p.State), gputrain.WithoutGuardian())
		if err != nil {
			return err
		}
		pool.Gather(gputrain.Cmd("sleep", "0.1"), gputrain.Cmd("sleep", "1"))
		pool.Close()
	}
})

// TestKilledAtAnyMoment kills programs at random moments: while they submit, wait in the queue, connect, work and close. Then
// Reap ends everything that they left.
//
// GPUTRAIN_SLURM_KILLS sets the seeds: their number, or the first and the last.
func TestKilledAtAnyMoment(t *testing.T) {
	b := common(t)
	first, kills := seeds.FromEnv(t, "GPUTRAIN_SLURM_KILLS", 5)
	var sum seeds.Tally
	turn := make(chan bool, 2) // limits the programs at a time: the cluster has few processors
	var tests []sidebyside.Test
	for seed := first; seed < first+uint64(kills); seed++ {
		tests = append(tests, sidebyside.Test{Name: fmt.Sprint("seed ", seed), Run: func(t *testing.T) { killOne(t, b, seed, turn, &sum) }})
	}
	sidebyside.Run(t, kills, tests)
	b.wantNothing(t)
	t.Logf("%d programs killed: %v", kills, &sum)
}

// killOne kills a program, and calls Reap. That waits for minutes if the program was killed while it submitted: the
// submission may have an effect yet. Other seeds run meanwhile.
func killOne(t *testing.T, b *testbed, seed uint64, turn chan bool, sum *seeds.Tally) {
	state := t.TempDir()
	func() {
		turn <- true
		defer func() { <-turn }()
		c := restlessPrograms.Start(t, restless{b.config(), state})
		c.Await("begins")
		rng := rand.New(rand.NewPCG(seed, 5))
		time.Sleep(time.Duration(rng.Int64N(int64(5 * time.Second))))
		c.Kill()
		if end := c.Cmd.ProcessState.String(); end != "signal: killed" {
			t.Errorf("the program ended by itself: %s\n%s", end, c.Log.String())
		}
	}()
	ended, err := gputrain.StateDir(state).Reap(t.Context(), b.config())
	if err != nil {
		t.Error(err)
	}
	sum.Add(len(ended), "jobs reaped")
	if left, err := gputrain.StateDir(state).Pools(); err != nil || len(left) > 0 {
		t.Errorf("the ledgers: %+v, %v", left, err)
	}
}

// A killed program's jobs end by themselves, once their lease has lapsed.
func TestLeaseLapses(t *testing.T) {
	b := common(t)
	for _, moment := range []time.Duration{0, 3 * time.Second} { // before the job is reached, and after it
		c := restlessPrograms.Start(t, restless{b.config(), t.TempDir()})
		c.Await("begins")
		e2etest.Until(t, "a job", func() bool { return b.on(t, "ctl", "squeue --noheader --format=%i | wc -l") != "0" })
		time.Sleep(moment)
		c.Kill()
	}
	b.wantNothing(t)
}
