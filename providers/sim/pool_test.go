package sim_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// pool opens a pool in the cloud, and closes it with the test at the latest.
func pool(t *testing.T, c *sim.Cloud, spec gputrain.Spec, opts ...gputrain.Option) *gputrain.Compute {
	t.Helper()
	p, err := gputrain.Open(t.Context(), sim.Config{Cloud: c}, spec, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAPoolLivesInABubble(t *testing.T) {
	inBubble(t, sim.Options{BootTime: time.Minute, BootJitter: time.Minute}, func(t *testing.T, c *sim.Cloud) {
		start := time.Now()
		p := pool(t, c, gputrain.Spec{Nodes: 3})
		if up := time.Since(start); up < time.Minute || up > 3*time.Minute {
			t.Errorf("up after %v of virtual time", up)
		}
		r, err := p.Run(gputrain.Cmd("echo", "hello"))
		if err != nil || string(r.Stdout) != "hello\n" {
			t.Errorf("%q, %v", r.Stdout, err)
		}
		r, err = p.Run(gputrain.Cmd("sleep", "10h"))
		if err != nil || r.Elapsed != 10*time.Hour {
			t.Errorf("slept %v, %v", r.Elapsed, err)
		}
		if r, err := p.Run(gputrain.Task{Args: []string{"cat"}, Stdin: []byte("in and out")}); err != nil || string(r.Stdout) != "in and out" {
			t.Errorf("%q, %v", r.Stdout, err)
		}
		var failure *gputrain.TaskError
		if _, err := p.Run(gputrain.Cmd("fail")); !errors.As(err, &failure) || failure.Cause != gputrain.CauseExit || failure.ExitCode != 3 || failure.Tail != "no luck" {
			t.Errorf("%v", err)
		}
		if _, err := p.Run(gputrain.Task{Args: []string{"sleep", "1h"}, Timeout: time.Minute}); !errors.Is(err, driver.ErrTimeout) {
			t.Errorf("%v", err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if live := c.Live(); len(live) > 0 {
			t.Errorf("left: %v", live)
		}
		if usd := c.BilledUSD(""); usd <= 0 {
			t.Errorf("billed $%v", usd)
		}
	})
}

// A dead client renews no lease: its machines end themselves.
func TestALeaseThatLapsesEndsTheMachine(t *testing.T) {
	inBubble(t, sim.Options{}, func(t *testing.T, c *sim.Cloud) {
		p := pool(t, c, gputrain.Spec{Nodes: 2, Lease: time.Minute, MaxReplacements: -1})
		time.Sleep(5 * time.Minute) // it is renewed
		if n := count(c, "machine"); n != 2 {
			t.Errorf("%d machines while the client lives", n)
		}
		c.Cut(true) // for the machines the client is gone
		time.Sleep(3 * time.Minute)
		if n := count(c, "machine"); n != 0 {
			t.Errorf("%d machines after their lease", n)
		}
		for _, m := range c.Machines("") {
			if m.State != driver.InstanceTerminated || m.StateReason == "" {
				t.Errorf("%s is %v: %s", m.ID, m.State, m.StateReason)
			}
		}
		for _, e := range c.Audit("") {
			if e.What == "terminated" && e.By != "machine" {
				t.Errorf("not by itself: %v", e)
			}
		}
		c.Cut(false)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// While the client lives, a short lease ends nothing.
func TestALeaseIsRenewed(t *testing.T) {
	inBubble(t, sim.Options{}, func(t *testing.T, c *sim.Cloud) {
		p := pool(t, c, gputrain.Spec{Lease: 10 * time.Second})
		defer p.Close()
		time.Sleep(10 * time.Minute)
		if r, err := p.Run(gputrain.Cmd("echo", "still", "here")); err != nil {
			t.Errorf("%q, %v", r.Stdout, err)
		}
	})
}

func TestACutLinkLosesNothing(t *testing.T) {
	inBubble(t, sim.Options{}, func(t *testing.T, c *sim.Cloud) {
		p := pool(t, c, gputrain.Spec{})
		defer p.Close()
		go func() {
			time.Sleep(10 * time.Second)
			c.Cut(true)
			time.Sleep(10 * time.Second)
			c.Cut(false)
		}()
		r, err := p.Run(gputrain.Cmd("sleep", "1m"))
		if err != nil || r.Attempts != 1 {
			t.Errorf("%d attempts, %v", r.Attempts, err)
		}
	})
}

func TestMachinesThatGo(t *testing.T) {
	tests := []struct {
		name string
		do   func(c *sim.Cloud, id string) error
		want driver.InstanceState
		live int
	}{
		{"preempted", func(c *sim.Cloud, id string) error { return c.Preempt(id, 0) }, driver.InstancePreempted, 1},
		{"preempted after a notice", func(c *sim.Cloud, id string) error { return c.Preempt(id, time.Second) }, driver.InstancePreempted, 1},
		{"vanished", (*sim.Cloud).Vanish, driver.InstanceTerminated, 1},
		{"failed", (*sim.Cloud).Fail, driver.InstanceFailed, 2},
		{"stopped", (*sim.Cloud).Stop, driver.InstanceStopped, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, sim.Options{}, func(t *testing.T, c *sim.Cloud) {
				d := open(t, c)
				got, err := d.Launch(t.Context(), request(t, d, "p", 2))
				if err != nil {
					t.Fatal(err)
				}
				if err := tt.do(c, got[0].ID); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				found, err := d.Describe(t.Context(), got[0].ID)
				if err != nil || found[0].State != tt.want {
					t.Errorf("%v, %v; want %v", found, err, tt.want)
				}
				if n := count(c, "machine"); n != tt.live {
					t.Errorf("%d machines are live; want %d", n, tt.live)
				}
				if err := d.Terminate(t.Context(), ids(got)...); err != nil {
					t.Error(err)
				}
				if found, err = d.Describe(t.Context(), ids(got)...); err != nil || found[0].State != driver.InstanceTerminated {
					t.Errorf("after terminate: %v, %v", found, err)
				}
			})
		})
	}
}

func TestANoticeIsTold(t *testing.T) {
	inBubble(t, sim.Options{}, func(t *testing.T, c *sim.Cloud) {
		d := open(t, c)
		got, err := d.Launch(t.Context(), request(t, d, "p", 1))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(2 * time.Minute)
		if err := c.Preempt(got[0].ID, 2*time.Minute); err != nil {
			t.Fatal(err)
		}
		found, err := d.Describe(t.Context(), got[0].ID)
		if err != nil || !found[0].PreemptAt.Equal(at) || found[0].State != driver.InstanceRunning {
			t.Errorf("%v, %v", found, err)
		}
	})
}

// A broken machine is reported as running, but cannot be reached.
func TestBreakAndHeal(t *testing.T) {
	inBubble(t, sim.Options{}, func(t *testing.T, c *sim.Cloud) {
		d := open(t, c)
		got, err := d.Launch(t.Context(), request(t, d, "p", 1))
		if err != nil {
			t.Fatal(err)
		}
		dial := func() error {
			nc, err := d.(driver.Dialer).Dial(t.Context(), got[0])
			if err == nil {
				nc.Close()
			}
			return err
		}
		if err := dial(); err != nil {
			t.Error(err)
		}
		c.Break(got[0].ID)
		found, err := d.Describe(t.Context(), got[0].ID)
		if dial() == nil || err != nil || found[0].State != driver.InstanceRunning {
			t.Errorf("broken: %v, %v", found, err)
		}
		c.Heal(got[0].ID)
		if err := dial(); err != nil {
			t.Error(err)
		}
	})
}

// Many plans must fit into a run of CI. Every seed is a plan.
func TestRandomFaultsLeaveNothing(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			if seed >= 10 && testing.Short() {
				t.Skip("scripts/test -deep runs it: a short run tries ten seeds")
			}
			inBubble(t, sim.Options{Seed: seed, BootTime: 20 * time.Second, ListLag: 5 * time.Second, Faults: []sim.Fault{sim.Random(seed, 0.1, harmless...)}}, func(t *testing.T, c *sim.Cloud) {
				p, err := gputrain.Open(t.Context(), sim.Config{Cloud: c}, gputrain.Spec{Nodes: 2})
				if err == nil {
					p.Run(gputrain.Cmd("echo", "x"))
					err = p.Close()
				}
				var leak *gputrain.LeakError
				if live := c.Live(); len(live) > 0 && !errors.As(err, &leak) {
					t.Errorf("left without a word: %v", live)
				}
				if doubles := c.Doubles(); len(doubles) > 0 {
					t.Errorf("doubles: %v", doubles)
				}
			})
		})
	}
}

// harmless are the faults after which a pool finds everything again.
var harmless = []sim.Kind{sim.ErrorBefore, sim.Refused, sim.RateLimited, sim.Unavailable, sim.SlowAnswer, sim.WithID}

func BenchmarkPlan(b *testing.B) {
	for b.Loop() {
		plan(b)
	}
}

// plan opens a pool of three, runs a task, and closes it.
func plan(b *testing.B) {
	c := sim.New(sim.Options{Exec: greet})
	defer c.Close()
	p, err := gputrain.Open(b.Context(), sim.Config{Cloud: c}, gputrain.Spec{Nodes: 3})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := p.Run(gputrain.Cmd("echo", "x")); err != nil {
		b.Fatal(err)
	}
	if err := p.Close(); err != nil {
		b.Fatal(err)
	}
}
