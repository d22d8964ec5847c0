//go:build unix

package gputrain_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

const (
	killedEnv = "GPUTRAIN_TEST_KILLED"
	// victimLife bounds a victim that nobody kills.
	victimLife = time.Minute
)

// isVictim reports whether this program is one that TestKilledPrograms kills, and
// is that program then: it opens pools, uses and closes them. It starts no other
// program.
func isVictim() bool {
	text, is := os.LookupEnv(killedEnv)
	if !is {
		return false
	}
	time.AfterFunc(victimLife, func() { os.Exit(3) })
	endpoint, state, _ := strings.Cut(text, " ")
	for seed := uint64(0); ; seed++ {
		rng := rand.New(rand.NewPCG(seed, uint64(os.Getpid())))
		pool, err := gputrain.Open(context.Background(), sim.Config{Endpoint: endpoint}, gputrain.Spec{Nodes: 1 + rng.IntN(4)},
			gputrain.WithStateDir(state), gputrain.WithResultsDir(state))
		if err != nil {
			continue
		}
		pool.Gather(gputrain.Cmd("sleep", "10ms"), gputrain.Cmd("sleep", "100ms"))
		pool.Close()
	}
}

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
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var sum outcomes
	turn := make(chan bool, 2) // programs at the same time
	var all sync.WaitGroup
	for seed := range uint64(kills) {
		all.Go(func() {
			if err := killOne(self, filepath.Join(dir, fmt.Sprint(seed)), seed, turn, &sum); err != nil {
				t.Errorf("kill %d: %v", seed, err)
			}
		})
	}
	all.Wait()
	t.Logf("%d programs killed: %v", kills, &sum)
}

// killOne kills a program, and reaps. The wait for what may still be on its way is
// long, and others have their turn meanwhile.
func killOne(self, state string, seed uint64, turn chan bool, sum *outcomes) error {
	rng := rand.New(rand.NewPCG(seed, 3))
	cloud := sim.New(sim.Options{
		Seed: seed, Exec: planned, BootTime: 20 * time.Millisecond, BootJitter: 50 * time.Millisecond,
		Latency: 2 * time.Millisecond, ListLag: 100 * time.Millisecond, NoTokens: rng.IntN(2) == 0,
	})
	defer cloud.Close()
	endpoint, err := cloud.Serve()
	if err != nil {
		return err
	}
	cloud.Inject(sim.Random(seed, 0.3*rng.Float64(), sim.ErrorBefore, sim.ErrorAfter, sim.Lost, sim.Refused, sim.Unavailable, sim.Garbage,
		sim.WithID, sim.Partial, sim.Duplicate, sim.Ignored, sim.Lag))
	turn <- true
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), killedEnv+"="+endpoint+" "+state)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	// From its first call on, as it takes a while to start.
	for begin := time.Now(); len(cloud.Log()) == 0 && time.Since(begin) < victimLife; {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Duration(rng.Int64N(int64(800 * time.Millisecond))))
	cmd.Process.Kill()
	err = cmd.Wait()
	<-turn
	if s := err.Error(); s != "signal: killed" {
		return fmt.Errorf("the program ended by itself: %s", s)
	}
	sum.add(len(cloud.Live()), "resources left")
	cloud.Calm()
	ended, err := gputrain.StateDir(state).Reap(context.Background(), sim.Config{Cloud: cloud})
	if err != nil {
		return err
	}
	sum.add(len(ended), "resources reaped")
	time.Sleep(500 * time.Millisecond)
	if live := cloud.Live(); len(live) > 0 {
		return fmt.Errorf("left: %+v", live)
	}
	if doubles := cloud.Doubles(); len(doubles) > 0 {
		return fmt.Errorf("doubles: %v", doubles)
	}
	if left, err := gputrain.StateDir(state).Pools(); err != nil || len(left) > 0 {
		return fmt.Errorf("the ledgers: %+v, %v", left, err)
	}
	return nil
}
