package clustertest

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
)

// A cluster node that is lost costs its node, which is replaced on another one. Its pod ends once the
// cluster node is back.
func TestKubeletKilled(t *testing.T) {
	c := start(t)
	pool, j := c.open(t, c.provider(), gputrain.Spec{})
	first := pool.Nodes()[0].ID
	_, on := c.podOf(t, first)
	c.docker(t, "kill", on)
	c.replaced(t, pool, first)
	j.says(t, time.Second, "node 0: ", first)
	if _, now := c.podOf(t, pool.Nodes()[0].ID); now == on {
		t.Errorf("the replacement is on %s too", now)
	}
	left, err := c.left(pool.ID())
	t.Logf("while %s is lost: %q, %v", on, left, err)
	c.docker(t, "start", on)
	c.routes(t)
	c.must(t, "wait", "--for=condition=Ready", "node/"+on, "--timeout=180s")
}

// routes gives the cluster nodes the routes to each other's pods, as up does: a container that was
// started again has lost them.
func (c *cluster) routes(t *testing.T) {
	t.Helper()
	for _, way := range [][2]string{{"1", "2"}, {"2", "1"}} {
		from, to := c.name+"-n"+way[0], c.name+"-n"+way[1]
		address, err := output(exec.Command("docker", "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", to))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := output(exec.Command("docker", "exec", from, "ip", "route", "replace", "10.244."+way[1]+".0/24", "via", strings.TrimSpace(address))); err != nil {
			t.Fatal(err)
		}
	}
}
