//go:build unix

package crash

import (
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
)

// abandonedContainersEndThemselves kills a program that has a pool. Its containers end when their
// lease runs out. The network remains, since no container can remove it. Reap removes the network
// and the ledger.
func abandonedContainersEndThemselves(t *testing.T) {
	v := shared(t, "sleep", 2, 1)
	v.Spec.Lease = 12 * time.Second
	r := v.start(t)
	r.Await("task started")
	id := poolID(t, v.State)
	containers := func() string {
		return e2etest.Docker(t, "ps", "--all", "--quiet", "--filter", "label=gputrain.pool="+id)
	}
	if n := len(strings.Fields(containers())); n != 2 {
		t.Errorf("there are %d containers before the program is killed", n)
	}
	r.Kill()
	if !e2etest.Settles(func() bool { return containers() == "" }) {
		t.Error("the containers do not end themselves")
		e2etest.Docker(t, "rm", "--force", "--volumes", id+"-0", id+"-1")
	}
	if got := e2etest.Docker(t, "network", "ls", "--quiet", "--filter", "label=gputrain.pool="+id); got == "" {
		t.Error("the network is gone, which the documentation does not promise")
	}
	if gone, err := gputrain.StateDir(v.State).Reap(t.Context(), container.Config{}); err != nil || len(gone) == 0 {
		t.Errorf("reap ended %v, %v", gone, err)
	}
	wantNoPools(t, v.State)
	e2etest.WantNothingOf(t, id)
}
