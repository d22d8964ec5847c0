//go:build unix

package gputrain_test

import (
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/container"
)

// abandonedContainersEndThemselves kills a program that has a pool. Its
// containers end by their lease. The network stays, since no container can remove it,
// and Reap ends that, and the ledger.
func abandonedContainersEndThemselves(t *testing.T) {
	v := shared(t, "sleep", 2, 1)
	v.Spec.Lease = gputrain.MinLease
	r := v.start(t)
	r.await("task started")
	id := poolID(t, v.State)
	containers := func() string { return docker(t, "ps", "--all", "--quiet", "--filter", "label=gputrain.pool="+id) }
	if n := len(strings.Fields(containers())); n != 2 {
		t.Errorf("%d containers are there before the program is killed", n)
	}
	r.kill()
	if !settles(func() bool { return containers() == "" }) {
		t.Error("the containers do not end themselves")
		docker(t, "rm", "--force", "--volumes", id+"-0", id+"-1")
	}
	if got := docker(t, "network", "ls", "--quiet", "--filter", "label=gputrain.pool="+id); got == "" {
		t.Error("the network is gone, which the documentation does not promise")
	}
	if gone, err := gputrain.StateDir(v.State).Reap(t.Context(), container.Config{}); err != nil || len(gone) == 0 {
		t.Errorf("reap ended %v, %v", gone, err)
	}
	wantNoPools(t, v.State)
	wantNothingOf(t, id)
}
