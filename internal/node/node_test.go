package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
)

// A node becomes ready step by step, and has what its machine reports.
func TestNodeBecomesReady(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLab(t, simnode.Config{CPUs: 4, MemoryBytes: 8 << 30, GPUs: []simnode.GPU{{Name: "NVIDIA H100 80GB HBM3", UUID: "GPU-0", MemoryMiB: 81559}, {Name: "NVIDIA H100 80GB HBM3", UUID: "GPU-1", MemoryMiB: 81559}}})
		l.cloud.scripts.FindAddress = "my address"
		l.answers["my address"] = "10.1.2.3\n"
		l.settings.Wants = wants{VCPUs: 4, MemoryGiB: 8, Accelerator: accelerators.H100(accelerators.Count(2))}
		l.ready()
		if want := []string{"connecting", "leased", "bootstrapping", "bootstrapped", "joined"}; !slices.Equal(l.calls, want) {
			t.Errorf("it was %q; want %q", l.calls, want)
		}
		if got := l.node.Addr(); got != "10.1.2.3" {
			t.Errorf("its address is %q", got)
		}
		if got := l.node.Devices().Visible([]int{1}); !slices.Equal(got, []string{"1"}) || l.node.Facts().CPUs != 4 {
			t.Errorf("its second slot has %q of %d CPUs", got, l.node.Facts().CPUs)
		}
		if key, source := l.node.HostKey(); !strings.HasPrefix(key, "SHA256:") || source != driver.HostKeyPublished {
			t.Errorf("its host key is %s, %v", key, source)
		}
	})
}

// An address that no machine has is not given to the other nodes, whether the machine says it is its own or the API does.
func TestAddressThatNoMachineHas(t *testing.T) {
	for addr, want := range map[string]string{
		"169.254.169.254": "link", "168.63.129.16": "metadata", "100.100.100.200": "metadata", "fd00:ec2::254": "metadata", "0.0.0.0": "this computer", "224.0.0.1": "multicast",
		"255.255.255.255": "broadcasts", "64:ff9b::169.254.169.254": "link", "fe80::1": "link", "::ffff:168.63.129.16": "metadata", "10.1.2.3": "", "127.0.0.1": "", "203.0.113.9": "",
	} {
		for who, report := range map[string]func(l *lab){
			"machine": func(l *lab) {
				l.cloud.scripts.FindAddress = "my address"
				l.answers["my address"] = addr + "\n"
			},
			"api":   func(l *lab) { l.cloud.inst.PrivateAddr = addr },
			"owner": func(l *lab) { l.cloud.inst.PrivateAddr, l.settings.Capabilities.Adopts = addr, true },
		} {
			t.Run(who+" "+addr, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					l := newLab(t, simnode.Config{CPUs: 4, MemoryBytes: 8 << 30})
					report(l)
					if want == "" || who == "owner" {
						l.ready()
						return
					}
					l.run()
					if _, err := l.failed(); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), want) {
						t.Errorf("it failed with %v", err)
					}
				})
			})
		}
	}
}

// A machine that is smaller than the query asks for is refused before its bootstrap.
func TestSmallMachineIsRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLab(t, simnode.Config{CPUs: 2, MemoryBytes: 4 << 30})
		l.settings.Wants = wants{VCPUs: 4, MemoryGiB: 8, Arch: "riscv64"}
		l.run()
		_, err := l.failed()
		for _, want := range []string{"acme: check p-0", "the spec asks for riscv64", "it has 2 vCPUs; the spec asks for 4", "it has 4.0 GiB of memory; the spec asks for 8"} {
			if !errors.Is(err, driver.ErrNoOffers) || !strings.Contains(err.Error(), want) {
				t.Errorf("it failed with %v; want %s", err, want)
			}
		}
		if slices.Contains(l.calls, "bootstrapping") {
			t.Error("it was bootstrapped")
		}
	})
}

// The provider's report on a machine that is coming up decides whether the node waits for it.
func TestStartup(t *testing.T) {
	for name, tt := range map[string]struct {
		state driver.InstanceState
		given error // Instance.FailureKind
		kind  error
		want  string
		after time.Duration // at the earliest
	}{
		"failed":    {driver.InstanceFailed, nil, driver.ErrNoCapacity, "acme: launch p-0: no capacity: the machine is failed: the reason", 0},
		"refused":   {driver.InstanceFailed, driver.ErrQuota, driver.ErrQuota, "acme: launch p-0: quota exceeded: the machine is failed: the reason", 0},
		"preempted": {driver.InstancePreempted, nil, driver.ErrPreempted, "the machine is preempted", 0},
		"stopped":   {driver.InstanceStopped, nil, driver.ErrNoCapacity, "the machine is stopped before it came up", stoppedPatience},
		"pending":   {driver.InstancePending, nil, driver.ErrUnavailable, "not up within 10m0s: the machine is pending (the provider reports that the machine is pending: the reason)", driver.DefaultProvisionTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				l := newLab(t, simnode.Config{})
				l.cloud.set(func(inst *driver.Instance) {
					inst.State, inst.StateReason, inst.FailureKind = tt.state, "the reason", tt.given
				}, nil)
				l.run()
				after, err := l.failed()
				if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) || after < tt.after || after > tt.after+time.Minute {
					t.Errorf("after %v: %v", after, err)
				}
			})
		})
	}
}

// A ready node that cannot be reached is lost according to its provider's report, and is kept while
// the provider cannot be reached either.
func TestUnreachableNode(t *testing.T) {
	for name, tt := range map[string]struct {
		state   driver.InstanceState
		offline bool          // the other nodes are unreachable too
		away    time.Duration // how long the provider does not answer
		want    string
		after   time.Duration // about
	}{
		"the machine runs":        {driver.InstanceRunning, false, 0, "though the provider reports that it is running", UnreachableTimeout},
		"and no other is reached": {driver.InstanceRunning, true, 0, "though the provider reports that it is running", 15 * time.Minute},
		"and the provider neither": {driver.InstanceRunning, false, time.Hour, "though the provider reports that it is running",
			time.Hour + UnreachableTimeout},
		"the machine is gone":     {driver.InstanceTerminated, false, 0, "the provider reports that the machine is terminated", 0},
		"it was preempted":        {driver.InstancePreempted, false, 0, "acme: p-0: node lost: preempted", 0},
		"gone, the cloud offline": {driver.InstanceTerminated, false, time.Hour, "the provider reports that the machine is terminated", time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				l := newLab(t, simnode.Config{})
				l.offline = tt.offline
				l.ready()
				l.cloud.machine.SetReachable(false)
				if tt.away > 0 {
					l.cloud.set(nil, errAway)
					time.AfterFunc(tt.away, func() { l.cloud.set(func(inst *driver.Instance) { inst.State = tt.state }, nil) })
				} else {
					l.cloud.set(func(inst *driver.Instance) { inst.State = tt.state }, nil)
				}
				after, err := l.failed()
				if !errors.Is(err, driver.ErrNodeLost) || !strings.Contains(err.Error(), tt.want) || after < tt.after || after > tt.after+time.Minute {
					t.Errorf("after %v: %v", after, err)
				}
				if errors.Is(err, driver.ErrPreempted) != (tt.state == driver.InstancePreempted) || !slices.Contains(l.calls, "down") {
					t.Errorf("%v, after %q", err, l.calls)
				}
			})
		})
	}
}

// A node whose connection comes back in time is kept.
func TestNodeComesBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLab(t, simnode.Config{})
		l.ready()
		l.cloud.machine.SetReachable(false)
		time.Sleep(UnreachableTimeout / 2)
		l.cloud.machine.SetReachable(true)
		time.Sleep(2 * UnreachableTimeout)
		if l.err != nil || !l.node.IsUp() || l.node.IsOver() {
			t.Errorf("it is lost: %v", l.err)
		}
	})
}

// A spot node learns of its preemption from its driver's script, and from the provider.
func TestNoticesOfPreemption(t *testing.T) {
	for name, begin := range map[string]func(l *lab){
		"by the node": func(l *lab) { l.cloud.scripts.PreemptionWatch = "any notice" },
		"by the provider": func(l *lab) {
			at := time.Now().Add(2 * time.Minute)
			l.cloud.set(func(inst *driver.Instance) { inst.PreemptAt = at }, nil)
			l.wg.Go(func() {
				WatchNotices(l.ctx, l.cloud, func() map[string]*Node { return map[string]*Node{"i-1": l.node} })
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				l := newLab(t, simnode.Config{})
				l.cloud.inst.Offer.Spot = true
				l.answers["any notice"] = "115\n"
				begin(l)
				l.ready()
				began := time.Now()
				time.Sleep(time.Minute)
				l.mu.Lock()
				defer l.mu.Unlock()
				if left := l.notice.Sub(began); left < 100*time.Second || left > 130*time.Second {
					t.Errorf("it was told that %v are left", left)
				}
			})
		})
	}
}

// A program takes over the node of a dead one: if the node was ready before, it is ready again
// without a bootstrap.
func TestResume(t *testing.T) {
	for name, ready := range map[string]bool{"was ready": true, "was not ready": false} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				l := newLab(t, simnode.Config{Exec: func(ctx context.Context, _ simnode.Command) int { <-ctx.Done(); return 1 }})
				l.ready()
				l.wg.Go(func() {
					_, _ = l.node.Supervisor().Run(l.ctx, supervisor.Spec{ID: "t1", Args: []string{"sleep"}}, supervisor.Sinks{})
				})
				time.Sleep(time.Second)
				l.node.Close() // its program is dead
				l.end()

				earlier := Earlier{Name: "p-0", Folder: l.folder, Instance: l.cloud.inst}
				l.calls, l.joined, l.resumed = nil, make(chan struct{}), ready
				l.settings.Generation = 2
				l.begin()
				l.node.Resume(earlier)
				l.ready()
				want := []string{"connecting", "leased", "found t1", "bootstrapping", "bootstrapped", "joined"}
				if ready {
					want = []string{"connecting", "leased", "found t1", "joined again"}
				}
				if !slices.Equal(l.calls, want) {
					t.Errorf("it was %q; want %q", l.calls, want)
				}
			})
		})
	}
}

// A dead program's tasks on a machine are ended without a pool. A machine whose lease has already
// ended them is clean; one that cannot be reached is not.
func TestCleanEarlier(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile func(l *lab)
		want      error
	}{
		"in time":                 {func(*lab) {}, nil},
		"after the lease":         {func(l *lab) { time.Sleep(2 * l.settings.Lease) }, nil},
		"without the machine":     {func(l *lab) { l.cloud.inst.ID = "another" }, driver.ErrNotFound},
		"with another's host key": {func(l *lab) { l.cloud.inst.SSH.HostKeys = []string{l.settings.Login.Public} }, ssh.ErrHostKey},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				ended := make(chan struct{})
				l := newLab(t, simnode.Config{Exec: func(ctx context.Context, _ simnode.Command) int { <-ctx.Done(); close(ended); return 1 }})
				l.ready()
				l.wg.Go(func() {
					_, _ = l.node.Supervisor().Run(l.ctx, supervisor.Spec{ID: "t1", Args: []string{"sleep"}}, supervisor.Sinks{})
				})
				time.Sleep(time.Second)
				earlier := Earlier{Name: "p-0", Folder: l.folder, Instance: l.cloud.inst}
				l.end()
				tt.meanwhile(l)

				settings := *l.settings
				settings.Generation, settings.Describer, settings.Go = 2, nil, nil
				n := New(t.Context(), &settings, nil)
				n.Resume(earlier)
				ctx, cancel := context.WithTimeout(t.Context(), cleanTimeout)
				defer cancel()
				if err := n.CleanEarlier(ctx); !errors.Is(err, tt.want) {
					t.Errorf("cleaning it: %v; want %v", err, tt.want)
				}
				if tt.want == nil {
					<-ended
				}
			})
		})
	}
}

// wants are the same for all offers.
type wants driver.Query

func (w wants) QueryOf(driver.Offer) driver.Query { return driver.Query(w) }
