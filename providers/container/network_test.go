package container

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

// Nodes of two pools join a network of the user's, reach each other there by name, and leave it
// as it was.
func TestNetworkOfTheUsers(t *testing.T) {
	long(t)
	onEngines(t, func(t *testing.T, binary string) {
		network := "gputrain-test." + strings.ToLower(rand.Text()[:8])
		cfg := Config{Binary: binary, Network: network, NamePrefix: "mine-"}
		first := newRig(t, cfg)
		if err := first.driver.Prepare(t.Context(), first.pool); !errors.Is(err, driver.ErrNotFound) || !strings.Contains(err.Error(), network) || !strings.Contains(err.Error(), "network create") {
			t.Fatalf("a network that does not exist: %v", err)
		}
		do(t, binary, "network", "create", network)
		t.Cleanup(func() { do(t, binary, "network", "rm", network) }) // it fails if the pools have removed it
		second := newRig(t, cfg)
		second.pool.WithRecord(func(r driver.Resource) error { t.Errorf("recorded %+v", r); return nil })
		a, b := first.up(1, gputrain.Spec{})[0], second.up(1, gputrain.Spec{})[0]
		if got := second.sh(second.connect(b), "getent hosts "+a.Name); !strings.HasPrefix(got, a.PrivateAddr+" ") {
			t.Errorf("%s is %q on the other pool's node, not %s", a.Name, got, a.PrivateAddr)
		}
		if a.Name != first.pool.ID+"-0" || first.do("inspect", "--format", "{{.Name}}", "mine-"+a.Name) == "" {
			t.Errorf("the node is %q", a.Name)
		}
		if got := first.sh(first.connect(a), "getent hosts node-0 || hostname"); got != a.Name {
			t.Errorf("node-0 is %q where two pools have such a node, and the host is to be %s", got, a.Name)
		}
		list := first.list(t.Context())
		if len(list) != 1 || list[0].Kind != "machine" || list[0].Name != a.Name {
			t.Errorf("listed %+v", list)
		}
		first.end(t.Context())
		if got, err := second.driver.Describe(t.Context(), b.ID); err != nil || got[0].State != driver.InstanceRunning {
			t.Errorf("another pool's end has changed %+v, %v", got, err)
		}
	})
}
