package clustertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
)

// doomedVariable is set in programs that open a pool, and are killed.
const doomedVariable = "GPUTRAIN_KUBERNETES_DOOMED"

// beDoomed opens pools, one after the other, and works on them, until the program is killed.
func beDoomed() {
	c := cluster{config: os.Getenv(doomedVariable)}
	for {
		spec := gputrain.Spec{Nodes: 1 + rand.IntN(2), Lease: 20 * time.Second, TTL: 10 * time.Minute}
		pool, err := gputrain.Open(context.Background(), c.provider(), spec, gputrain.WithStateDir(os.Getenv(doomedVariable+"_STATE")))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		pool.Broadcast(gputrain.Cmd("sleep", "1"))
		pool.Close()
	}
}

// Programs that are killed at any moment leave nothing, after Reap, or after the end of their leases
// without it.
//
// GPUTRAIN_KUBERNETES_KILLS sets the number of programs; 5 by default.
func TestKilledPrograms(t *testing.T) {
	c := start(t)
	kills := 5
	if text := os.Getenv("GPUTRAIN_KUBERNETES_KILLS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		kills = n
	}
	turns := make(chan struct{}, 3)
	t.Run("programs", func(t *testing.T) {
		for i := range kills {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				turns <- struct{}{}
				defer func() { <-turns }()
				c.killOne(t, i%2 == 0)
			})
		}
	})
	c.wantNothingIn(t, 8*time.Minute, "") // a Job that never gets its Secret ends after five
}

// killOne kills a program at a random moment of its first seconds. Half of them have a Reap.
func (c *cluster) killOne(t *testing.T, reap bool) {
	state, home := t.TempDir(), t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), doomedVariable+"="+c.config, doomedVariable+"_STATE="+state, "TMPDIR="+home)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Duration(rand.Int64N(int64(9 * time.Second)))) // the moment, not a wait
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	cmd.Wait()
	left, err := c.left("")
	t.Logf("killed; the namespace has %d objects, %v", len(left), err)
	if !reap {
		return
	}
	ended, err := gputrain.StateDir(state).Reap(t.Context(), c.provider())
	if err != nil {
		t.Error(err)
	}
	t.Logf("Reap has ended %d", len(ended))
}
