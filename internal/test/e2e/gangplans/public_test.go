package gangplans

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// A gang whose nodes would meet at public addresses is refused before its program starts, and Plan says so beforehand. It
// runs if the training allows it, or has one node.
func TestPublicNetwork(t *testing.T) {
	for name, tt := range map[string]struct {
		ports    driver.PortAccess
		private  bool // the nodes have private addresses
		training gputrain.Training
		refused  bool
		planned  string
	}{
		"refused":          {refused: true, planned: "Train refuses a gang that would meet at public addresses"},
		"launcher":         {training: gputrain.Training{Launcher: gputrain.Torchrun}, refused: true, planned: "Train refuses"},
		"by mpirun":        {training: gputrain.Training{Launcher: gputrain.MPI}, refused: true, planned: "Train refuses"},
		"closed to others": {ports: driver.PortsOfNetwork, refused: true, planned: "Train refuses"},
		"allowed":          {training: gputrain.Training{AllowPublicNetwork: true}, planned: "Train refuses"},
		"one node":         {training: gputrain.Training{Nodes: 1}, planned: "Train refuses"},
		"firewalled":       {ports: driver.PortsOfPool, refused: true, planned: "Train refuses"},
		"private":          {private: true, planned: "no firewall is known that keeps strangers from a gang's ports"},
		"neighbours":       {private: true, ports: driver.PortsOfNetwork, planned: "what shares a network with its nodes reaches a gang's ports"},
	} {
		t.Run(name, func(t *testing.T) {
			var ran atomic.Int64
			exec := func(ctx context.Context, cmd sim.Command) int {
				ran.Add(1)
				return e2etest.Words(ctx, cmd)
			}
			e2etest.InCloud(t, sim.Options{Exec: exec}, func(t *testing.T, c *e2etest.SimCloud) {
				public := func(all []driver.Instance) []driver.Instance {
					for i := range all {
						if !tt.private {
							all[i].PrivateAddr, all[i].PublicAddr = "", fmt.Sprintf("203.0.113.%d", all[i].Rank+1)
						}
					}
					return all
				}
				w := &e2etest.Wrapped{
					OnDescribe: func(all []driver.Instance) ([]driver.Instance, error) { return public(all), nil },
					OnLaunch: func(ctx context.Context, l driver.Launch, d driver.Driver) ([]driver.Instance, error) {
						all, err := d.Launch(ctx, l)
						return public(all), err
					},
					OnCapabilities: func(caps *driver.Capabilities) { caps.PrivateNetwork, caps.Ports = tt.private, tt.ports },
				}
				p, err := c.OpenWrapped(t.Context(), t, w, gputrain.Spec{Nodes: 2})
				if err != nil {
					t.Fatal(err)
				}
				plan, err := gputrain.Plan(t.Context(), w, gputrain.Spec{Nodes: 2})
				if err != nil || len(plan) == 0 || !strings.Contains(fmt.Sprint(plan[0].Warnings), tt.planned) {
					t.Errorf("the plan: %+v, %v; want %q", plan, err, tt.planned)
				}
				training := tt.training
				training.Task = gputrain.Cmd("echo", "hello")
				if training.Launcher == gputrain.Processes {
					training.ProcessesPerNode = 1
				}
				r, err := p.Train(training)
				var failed *gputrain.TrainError
				switch {
				case !tt.refused && err != nil:
					t.Errorf("%v", err)
				case !tt.refused && ran.Load() == 0:
					t.Error("nothing ran")
				case tt.refused && (!errors.As(err, &failed) || !errors.Is(err, gputrain.ErrUnsupported) || failed.Failures[0].Cause != gputrain.CauseNeverStarted):
					t.Errorf("%v", err)
				case tt.refused && (!strings.Contains(err.Error(), "public address 203.0.113.") || !strings.Contains(err.Error(), "Training.AllowPublicNetwork")):
					t.Errorf("%v does not say what is wrong, or what to do", err)
				case tt.refused && (ran.Load() > 0 || len(r.Attempts) != 1):
					t.Errorf("%d processes ran in %d attempts", ran.Load(), len(r.Attempts))
				}
				c.CloseAndCheck(t, p)
			})
		})
	}
}
