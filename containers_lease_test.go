//go:build unix

package gputrain_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/container"
)

// abandoning says to TestAbandonedContainersEndThemselves that it is the child.
const abandoning = "TEST_ABANDON_POOL"

// TestAbandonedContainersEndThemselves kills a program that has a pool. Its
// containers end by their lease. The network stays, since no container can remove it,
// and Reap ends that, and the ledger.
func TestAbandonedContainersEndThemselves(t *testing.T) {
	if os.Getenv(abandoning) != "" {
		pool, err := gputrain.Open(t.Context(), container.Config{}, gputrain.Spec{Nodes: 2, Lease: gputrain.MinLease},
			gputrain.WithStateDir(os.Getenv(abandoning)))
		if err != nil {
			t.Fatal(err)
		}
		pool.Start(gputrain.Cmd("sleep", "600"))
		fmt.Println("pool", pool.ID())
		select {}
	}
	needDocker(t)
	state := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestAbandonedContainersEndThemselves$")
	child.Env = append(os.Environ(), abandoning+"="+state, "TMPDIR="+t.TempDir())
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var id string
	for s := bufio.NewScanner(out); id == "" && s.Scan(); {
		id, _ = strings.CutPrefix(s.Text(), "pool ")
		if id == s.Text() {
			t.Log(id)
			id = ""
		}
	}
	child.Process.Kill()
	child.Wait()
	if id == "" {
		t.Fatal("the child opened no pool")
	}
	containers := func() string { return docker(t, "ps", "--all", "--quiet", "--filter", "label=gputrain.pool="+id) }
	if n := len(strings.Fields(containers())); n != 2 {
		t.Errorf("%d containers are there when the program is killed", n)
	}
	if !settles(func() bool { return containers() == "" }) {
		t.Error("the containers do not end themselves")
		docker(t, "rm", "--force", "--volumes", id+"-0", id+"-1")
	}
	if got := docker(t, "network", "ls", "--quiet", "--filter", "label=gputrain.pool="+id); got == "" {
		t.Error("the network is gone, which the documentation does not promise")
	}
	if gone, err := gputrain.StateDir(state).Reap(t.Context(), container.Config{}); err != nil || len(gone) == 0 {
		t.Errorf("reap ended %v, %v", gone, err)
	}
	wantNoPools(t, state)
	wantNothingOf(t, id)
}
