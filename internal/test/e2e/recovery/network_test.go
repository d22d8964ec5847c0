package recovery

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// The node that replaces another one is in the private network of those that live, although another provider
// has become cheaper. Without NetworkPrivate it is at that one.
func TestReplacementInTheNetwork(t *testing.T) {
	for name, tt := range map[string]struct {
		network gputrain.Network
		same    bool
	}{
		"private": {gputrain.NetworkPrivate, true},
		"any":     {gputrain.NetworkAny, false},
	} {
		t.Run(name, func(t *testing.T) {
			state := gputrain.WithStateDir(t.TempDir())
			bubble.Test(t, func(t *testing.T) {
				cloud := func(name string, usd float64) *sim.Cloud {
					return sim.New(sim.Options{Name: name, Exec: e2etest.Words, Offers: []driver.Offer{{ID: name, InstanceType: "small", Region: "here", HourlyUSD: driver.USD(usd)}}})
				}
				a, b := cloud("cloud-a", 1), cloud("cloud-b", 2)
				defer a.Close()
				defer b.Close()
				both := gputrain.Cheapest(sim.Config{Cloud: a}, sim.Config{Cloud: b})
				pool, err := gputrain.Open(t.Context(), both, gputrain.Spec{Nodes: 2, Network: tt.network}, state)
				if err != nil {
					t.Fatal(err)
				}
				defer pool.Close()
				b.SetPrice("cloud-b", driver.USD(0.1))
				_, id, _ := strings.Cut(pool.Nodes()[1].ID, "/")
				if err := a.Vanish(id); err != nil {
					t.Fatal(err)
				}
				for range 60 {
					time.Sleep(time.Minute)
					synctest.Wait()
					if n := pool.Nodes()[1]; n.State == gputrain.NodeReady && !strings.HasSuffix(n.ID, "/"+id) {
						break
					}
				}
				account := func(rank int) string {
					key, _, _ := strings.Cut(pool.Nodes()[rank].ID, "/")
					return key
				}
				if same := account(0) == account(1); same != tt.same || pool.Nodes()[1].State != gputrain.NodeReady {
					t.Errorf("the nodes are in one account: %v: %+v", same, pool.Nodes())
				}
			})
		})
	}
}
