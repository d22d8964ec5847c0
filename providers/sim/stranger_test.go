//go:build unix

package sim

import (
	"testing"

	"github.com/gputrain/gputrain/internal/test/strangertest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// Another user can see the name of a machine's home, and write it into the environment of a
// process: that process is not ended with the machine. Other users cannot look into the home.
func TestStrangersProcess(t *testing.T) {
	strangertest.Need(t)
	dir := strangertest.Shared(t)
	c := New(Options{Dir: dir})
	defer c.Close()
	d, err := Config{Cloud: c}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, err := d.Launch(t.Context(), driver.Launch{
		Pool: driver.PoolInfo{ID: "p", AuthorizedKey: cloudtest.PoolKey}, Offer: driver.Offer{ID: "offer-1"}, Nodes: []driver.NodeRequest{{Name: "p-0"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	home := c.fleet.machines[0].node.Home()
	if open := strangertest.Opens(t, dir); len(open) > 0 {
		t.Errorf("the stranger opens %v", open)
	}
	pid := strangertest.Start(t, homeEnv+"="+string(home))
	if err := d.Terminate(t.Context(), got[0].ID); err != nil {
		t.Error(err)
	}
	if home.Exists() {
		t.Error("the home is still there")
	}
	if !strangertest.Lives(t, pid) {
		t.Error("a stranger's process was ended")
	}
}
