package gang

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/providers/driver"
)

// TestGang is a table of what happens to a gang of two nodes, and what follows.
func TestGang(t *testing.T) {
	// upTo returns a script whose attempts do what the function says, up to one attempt, and then succeed after three steps.
	upTo := func(attempt int, bad func(s *testShare) *Failure) func(s *testShare) *Failure {
		return func(s *testShare) *Failure {
			if s.e.Number <= attempt {
				return bad(s)
			}
			for n := int64(1); n <= 3; n++ {
				if !s.sleep(time.Second) {
					return nil
				}
				s.step(n)
			}
			return nil
		}
	}
	// fails has share 1 exit after a second, and the other run on.
	fails := func(s *testShare) *Failure {
		if s.share == 1 {
			s.sleep(time.Second)
			return exit(3)
		}
		s.sleep(time.Hour)
		return nil
	}
	hangs := func(s *testShare) *Failure {
		s.step(int64(10 + s.share))
		s.sleep(24 * time.Hour)
		return nil
	}
	for _, tt := range []struct {
		name   string
		config Config
		nodes  int // that there can be; 2 if zero
		script func(h *testHost, s *testShare) *Failure
		setup  func(h *testHost)
		ok     bool
		err    error
		states string // without the first two, of each attempt
		root   Kind   // of the last attempt, if not ok
		within time.Duration
		look   func(t *testing.T, h *testHost)
	}{
		{
			name: "success", ok: true, states: "1 waiting, 1 starting, 1 running, 1 done", within: 4 * time.Second,
			script: func(_ *testHost, s *testShare) *Failure { return upTo(0, nil)(s) },
		},
		{
			name: "no restart", states: "1 waiting, 1 starting, 1 running, 1 failing, 1 done", root: Own, within: 10 * time.Second,
			script: func(_ *testHost, s *testShare) *Failure { return fails(s) },
		},
		{
			name: "one restart is enough", config: Config{Restarts: 1}, ok: true, within: 15 * time.Second,
			states: "1 waiting, 1 starting, 1 running, 1 failing, 1 restarting, 2 waiting, 2 starting, 2 running, 2 done",
			script: func(_ *testHost, s *testShare) *Failure { return upTo(1, fails)(s) },
		},
		{
			name: "one restart is not enough", config: Config{Restarts: 1}, root: Own,
			script: func(_ *testHost, s *testShare) *Failure { return upTo(2, fails)(s) },
		},
		{
			name: "no progress", config: Config{Restarts: 100}, err: driver.ErrNoProgress, root: Own,
			script: func(_ *testHost, s *testShare) *Failure { return fails(s) },
			look: func(t *testing.T, h *testHost) {
				if len(h.attempts) != 4 { // three that failed, and the end of the third
					t.Errorf("%d reports of an end", len(h.attempts))
				}
			},
		},
		{
			name: "each attempt gets further", config: Config{Restarts: 5}, ok: true,
			script: func(_ *testHost, s *testShare) *Failure {
				s.step(int64(s.e.Number))
				return upTo(5, fails)(s)
			},
		},
		{
			name: "each attempt keeps another checkpoint", config: Config{Restarts: 5}, ok: true,
			script: func(h *testHost, s *testShare) *Failure {
				h.mu.Lock()
				h.kept = int64(s.e.Number)
				h.mu.Unlock()
				return upTo(5, fails)(s)
			},
		},
		{
			name: "a lost node does not count", nodes: 3, ok: true,
			states: "1 waiting, 1 starting, 1 running, 1 failing, drop n1: lost, 1 restarting, 2 waiting, 2 starting, 2 running, 2 done",
			script: func(h *testHost, s *testShare) *Failure {
				return upTo(1, func(s *testShare) *Failure {
					if s.share == 1 {
						s.e.Nodes[1].(*testNode).lose(errGone)
					}
					s.sleep(time.Hour)
					return nil
				})(s)
			},
			look: func(t *testing.T, h *testHost) {
				if last := h.attempts[len(h.attempts)-1]; last.Nodes[0].Name() != "n0" || last.Nodes[1].Name() != "n2" {
					t.Errorf("the other node has another rank: %v", last.Nodes)
				}
			},
		},
		{
			name: "another gang gets a node between two attempts", nodes: 3, config: Config{Restarts: 1}, ok: true,
			script: func(h *testHost, s *testShare) *Failure {
				return upTo(1, func(s *testShare) *Failure {
					if s.share == 1 {
						h.mu.Lock()
						h.nodes = h.nodes[1:]
						h.mu.Unlock()
					}
					return fails(s)
				})(s)
			},
			look: func(t *testing.T, h *testHost) {
				if last := h.attempts[len(h.attempts)-1]; last.Nodes[0].Name() != "n2" || last.Nodes[1].Name() != "n1" {
					t.Errorf("it runs on %v", last.Nodes)
				}
			},
		},
		{
			name: "no node takes the place of a lost one", err: driver.ErrNoCapacity, root: NodeLost,
			script: func(h *testHost, s *testShare) *Failure {
				s.e.Nodes[1].(*testNode).lose(errGone)
				s.sleep(time.Hour)
				return nil
			},
		},
		{
			name: "says nothing", root: Stalled, within: 15*time.Minute + 20*time.Second,
			script: func(_ *testHost, s *testShare) *Failure { s.sleep(24 * time.Hour); return nil },
		},
		{
			name: "one says nothing, and another does", config: Config{StallTimeout: 20 * time.Minute}, root: Stalled, within: 21 * time.Minute,
			script: func(_ *testHost, s *testShare) *Failure {
				if s.share == 0 {
					s.track.Output(0)
				}
				s.sleep(24 * time.Hour)
				return nil
			},
		},
		{
			name: "stalls", config: Config{StallTimeout: time.Minute}, root: Stalled, within: 2 * time.Minute,
			script: func(_ *testHost, s *testShare) *Failure { return hangs(s) },
			look: func(t *testing.T, h *testHost) {
				for _, f := range h.last() {
					if f.Step != int64(10+f.Share) || f.Stack != fmt.Sprint("stack of ", f.Share) || !errors.Is(f.Err, driver.ErrStalled) {
						t.Errorf("%+v", f)
					}
				}
			},
		},
		{
			name: "output is no progress after a step", config: Config{StallTimeout: time.Minute}, root: Stalled, within: 2 * time.Minute,
			script: func(_ *testHost, s *testShare) *Failure {
				s.step(1)
				for s.sleep(time.Second) {
					s.track.Output(s.share)
				}
				return nil
			},
		},
		{
			name: "a checkpoint that grows is progress", config: Config{StallTimeout: time.Minute}, ok: true,
			script: func(_ *testHost, s *testShare) *Failure {
				s.step(1)
				for range 10 {
					s.sleep(30 * time.Second)
					s.track.Grew()
				}
				return nil
			},
		},
		{
			name: "a node that cannot be heard does not stall", config: Config{StallTimeout: time.Minute}, ok: true,
			script: func(_ *testHost, s *testShare) *Failure {
				s.step(1)
				n := s.e.Nodes[s.share].(*testNode)
				n.down.Store(true)
				s.sleep(time.Hour)
				n.down.Store(false)
				s.sleep(30 * time.Second)
				s.step(2)
				return nil
			},
		},
		{
			name: "the node that stalls twice is replaced", nodes: 3, config: Config{StallTimeout: time.Minute, Restarts: 2}, ok: true,
			script: func(_ *testHost, s *testShare) *Failure { return upTo(2, hangs)(s) },
			look: func(t *testing.T, h *testHost) {
				if !slices.ContainsFunc(h.log, func(s string) bool { return strings.HasPrefix(s, "drop n0: two attempts") }) {
					t.Errorf("%q", h.log)
				}
			},
		},
		{
			name: "a stall that nothing tells the cause of costs no node", nodes: 3, config: Config{StallTimeout: time.Minute, Restarts: 2}, ok: true,
			setup: func(h *testHost) {
				h.order = func(e *Attempt, failures []Failure) []Failure {
					return append([]Failure{{Kind: Stalled, Node: -1, Share: -1, Rank: -1, Err: driver.ErrStalled}}, failures...)
				}
			},
			script: func(_ *testHost, s *testShare) *Failure { return upTo(2, hangs)(s) },
			look:   keepsNodes,
		},
		{
			name: "a process that ends too early costs no node", nodes: 3, config: Config{StallTimeout: time.Minute, Restarts: 2}, ok: true,
			setup: func(h *testHost) {
				h.order = func(e *Attempt, failures []Failure) []Failure {
					return append([]Failure{{Kind: Stalled, Node: 1, Share: 1, Rank: 1, Why: &attempt.Failure{Cause: attempt.Exit}, Err: driver.ErrStalled}}, failures...)
				}
			},
			script: func(_ *testHost, s *testShare) *Failure {
				return upTo(2, func(s *testShare) *Failure {
					if s.share == 0 {
						return hangs(s)
					}
					return nil
				})(s)
			},
			look: keepsNodes,
		},
		{
			name: "accelerators of all nodes do nothing", config: Config{Restarts: 2}, root: Idle, err: driver.ErrNoProgress, nodes: 3,
			script: func(_ *testHost, s *testShare) *Failure {
				for s.sleep(10 * time.Second) {
					s.track.Output(s.share)
					s.track.Sample(s.share, "0", 0, 3)
				}
				return nil
			},
			look: func(t *testing.T, h *testHost) {
				keepsNodes(t, h)
				if f := h.last()[0]; f.Node != -1 {
					t.Errorf("%+v", f)
				}
			},
		},
		{
			name: "a node is lost, and the others hang", nodes: 3, ok: true, within: 7 * time.Second,
			script: func(h *testHost, s *testShare) *Failure {
				return upTo(1, func(s *testShare) *Failure {
					if s.share == 1 {
						s.sleep(time.Second)
						n := s.e.Nodes[1].(*testNode)
						n.down.Store(true)
						n.lose(errGone)
					}
					s.sleep(time.Hour)
					return nil
				})(s)
			},
			look: func(t *testing.T, h *testHost) {
				if all := h.attempts[0].Failures; len(all) != 1 || all[0].Kind != NodeLost || all[0].Node != 1 || all[0].Rank != -1 {
					t.Errorf("one loss is not one failure: %+v", all)
				}
			},
		},
		{
			name: "the first restart follows at once", config: Config{Restarts: 1}, ok: true, within: 3 * time.Second,
			script: func(_ *testHost, s *testShare) *Failure {
				if s.e.Number == 1 {
					return exit(1)
				}
				s.sleep(2 * time.Second)
				return nil
			},
			look: func(t *testing.T, h *testHost) {
				if pause := h.attempts[1].From.Sub(h.attempts[0].To); pause > 0 {
					t.Errorf("a pause of %v", pause)
				}
			},
		},
		{
			name: "the first step comes later than StallTimeout", config: Config{StallTimeout: time.Minute}, ok: true,
			script: func(_ *testHost, s *testShare) *Failure {
				s.track.Output(s.share)
				s.sleep(14 * time.Minute) // imports, downloads
				s.step(1)
				s.sleep(50 * time.Second)
				return nil
			},
		},
		{
			name: "a stall after the first step", config: Config{StallTimeout: time.Minute}, root: Stalled, within: 16*time.Minute - 10*time.Second,
			script: func(_ *testHost, s *testShare) *Failure {
				s.sleep(14 * time.Minute)
				s.step(7)
				s.sleep(time.Hour)
				return nil
			},
			look: says("StallTimeout: it has waited for a step after 7"),
		},
		{
			name: "no first step", config: Config{StallTimeout: time.Minute, StartTimeout: 5 * time.Minute}, root: Stalled, within: 6*time.Minute + 10*time.Second,
			script: func(_ *testHost, s *testShare) *Failure {
				s.sleep(time.Minute)
				s.track.Output(s.share)
				s.sleep(time.Hour)
				return nil
			},
			look: says("StallTimeout: it has waited for the attempt's first step, and it has printed nothing for 5m"),
		},
		{
			name: "a start without a word", config: Config{StallTimeout: time.Minute, StartTimeout: 5 * time.Minute}, root: Stalled, within: 5*time.Minute + 15*time.Second,
			script: func(_ *testHost, s *testShare) *Failure { s.sleep(time.Hour); return nil },
			look:   says("StartTimeout: the program's first step or line of output has not come 5m0s after the start"),
		},
		{
			name: "a start of any length", config: Config{StallTimeout: time.Minute, StartTimeout: -1}, ok: true,
			script: func(_ *testHost, s *testShare) *Failure { s.sleep(24 * time.Hour); s.step(1); return nil },
		},
		{
			name: "one runs on after the others have ended", config: Config{StallTimeout: time.Minute}, root: Stalled,
			script: func(_ *testHost, s *testShare) *Failure {
				for n := int64(1); s.share == 1 && s.sleep(10*time.Second); n++ {
					s.step(n)
				}
				return nil
			},
		},
		{
			name: "an accelerator does nothing", root: Idle, within: 32 * time.Minute,
			script: func(_ *testHost, s *testShare) *Failure {
				for n := int64(1); s.sleep(10 * time.Second); n++ {
					s.step(n)
					s.track.Sample(s.share, "0", float64(100*(1-s.share)), 3)
				}
				return nil
			},
		},
		{
			name: "accelerators that are not sampled are not idle", ok: true,
			script: func(_ *testHost, s *testShare) *Failure {
				s.track.Sample(s.share, "0", 0, 3)
				for n := int64(1); n < 300; n++ {
					s.sleep(10 * time.Second)
					s.step(n)
				}
				return nil
			},
		},
		{
			name: "an accelerator is broken", nodes: 3, ok: true,
			script: func(_ *testHost, s *testShare) *Failure {
				return upTo(1, func(s *testShare) *Failure {
					if s.share == 1 {
						s.track.Fault(Failure{Kind: Accelerator, Node: 1, Share: -1, Broken: true, Err: errors.New("Xid 79")})
					}
					s.sleep(time.Hour)
					return nil
				})(s)
			},
			look: func(t *testing.T, h *testHost) {
				if !slices.Contains(h.log, "drop n1: Xid 79") {
					t.Errorf("%q", h.log)
				}
			},
		},
		{
			name: "a share cannot be started", root: NeverStarted, states: "1 waiting, 1 starting, 1 failing, 1 restarting, 2 waiting, 2 starting, 2 failing, 2 restarting, 3 waiting, 3 starting, 3 failing, 3 done",
			setup:  func(h *testHost) { h.unstart = map[int]int{1: 1, 2: 0, 3: 1} },
			script: func(h *testHost, s *testShare) *Failure { h.t.Error("it was released"); return nil },
		},
		{
			name: "a share cannot be started, and another node cannot be reached", root: NeverStarted,
			setup: func(h *testHost) {
				h.unstart = map[int]int{1: 1, 2: 1, 3: 1}
				h.prepare = func(e *Attempt, _ []int) []Failure {
					e.Nodes[0].(*testNode).down.Store(true)
					return nil
				}
			},
			script: func(*testHost, *testShare) *Failure { return nil },
		},
		{
			name: "a node is not fit", nodes: 3, ok: true,
			setup: func(h *testHost) {
				h.prepare = func(e *Attempt, fresh []int) []Failure {
					if want := map[int]int{1: 2, 2: 2}[e.Number]; len(fresh) != want {
						h.t.Errorf("attempt %d: fresh nodes %v", e.Number, fresh)
					}
					if e.Nodes[1].Name() == "n1" {
						return []Failure{{Kind: NeverStarted, Node: 1, Share: -1, Broken: true, Err: errors.New("unfit")}}
					}
					return nil
				}
			},
			script: func(_ *testHost, s *testShare) *Failure { return nil },
		},
		{
			name: "no node is fit", root: NeverStarted,
			setup: func(h *testHost) {
				h.prepare = func(e *Attempt, fresh []int) []Failure {
					return []Failure{{Kind: NeverStarted, Share: -1, Final: true, Err: driver.ErrUnsupported}}
				}
			},
			script: func(*testHost, *testShare) *Failure { return nil },
			look: func(t *testing.T, h *testHost) {
				if n := h.attempts[len(h.attempts)-1].Number; n != 1 {
					t.Errorf("%d attempts", n)
				}
			},
		},
		{
			name: "a bad checkpoint is set aside, and costs no restart", ok: true,
			setup: func(h *testHost) {
				h.kept = 5
				h.prepare = func(e *Attempt, _ []int) []Failure {
					if e.Resumed = "step-5"; len(h.aside) > 0 {
						e.Resumed = "step-4"
					}
					return nil
				}
			},
			script: func(h *testHost, s *testShare) *Failure {
				if s.e.Resumed == "step-5" {
					return fails(s)
				}
				return nil
			},
			look: func(t *testing.T, h *testHost) {
				if !slices.Equal(h.aside, []string{"step-5"}) || h.attempts[len(h.attempts)-1].Number != 3 {
					t.Errorf("%q, %d attempts", h.aside, h.attempts[len(h.attempts)-1].Number)
				}
			},
		},
		{
			name: "a node that cannot be cleaned is replaced", nodes: 3, config: Config{Restarts: 1}, ok: true,
			setup:  func(h *testHost) { h.dirty[1] = true },
			script: func(_ *testHost, s *testShare) *Failure { return upTo(1, fails)(s) },
			look: func(t *testing.T, h *testHost) {
				if !slices.Contains(h.log, "drop n0: cannot be cleaned") {
					t.Errorf("%q", h.log)
				}
			},
		},
		{
			name: "out of memory at the same node twice", nodes: 3, config: Config{Restarts: 5}, ok: true,
			script: func(_ *testHost, s *testShare) *Failure {
				return upTo(2, func(s *testShare) *Failure {
					if s.share == 1 {
						return &Failure{Kind: Own, Why: attempt.Failed(attempt.OutOfMemory, nil)}
					}
					s.sleep(time.Hour)
					return nil
				})(s)
			},
			look: func(t *testing.T, h *testHost) {
				if !slices.ContainsFunc(h.log, func(s string) bool { return strings.HasPrefix(s, "drop n1: two attempts") }) {
					t.Errorf("%q", h.log)
				}
			},
		},
		{
			name: "a share has failed, and its files take long", root: Own, within: 10 * time.Second,
			script: func(_ *testHost, s *testShare) *Failure {
				if s.share == 1 {
					early := *exit(3)
					early.Node, early.Share = 1, 1
					s.track.Failed(1, early)
				}
				s.sleep(time.Hour)
				return nil
			},
			look: func(t *testing.T, h *testHost) {
				if all := h.last(); len(all) != 1 || all[0].Share != 1 || all[0].Why.ExitCode != 3 {
					t.Errorf("%+v", all)
				}
			},
		},
		{
			name: "the first to fail cannot be reached for a while", root: Own, within: 35 * time.Second,
			script: func(_ *testHost, s *testShare) *Failure {
				s.sleep(time.Second)
				f := exit(s.share)
				if f.Why.At = time.Now(); s.share == 1 {
					n := s.e.Nodes[1].(*testNode)
					n.down.Store(true)
					time.Sleep(30 * time.Second)
					n.down.Store(false)
				} else {
					s.sleep(time.Millisecond)
					f.Why.At = time.Now()
				}
				f.At = f.Why.At
				return f
			},
			look: func(t *testing.T, h *testHost) {
				if all := h.last(); len(all) != 2 || all[0].Share != 1 {
					t.Errorf("%+v", all)
				}
			},
		},
		{
			name: "the other process fails before the loss of a node is known", nodes: 3, ok: true,
			script: func(_ *testHost, s *testShare) *Failure {
				return upTo(1, func(s *testShare) *Failure {
					if s.share == 0 {
						s.sleep(time.Second)
						return exit(1)
					}
					n := s.e.Nodes[1].(*testNode)
					n.down.Store(true)
					time.Sleep(20 * time.Second)
					n.lose(errGone)
					return nil
				})(s)
			},
		},
		{
			name: "a node cannot be reached for long", root: Own, within: 70 * time.Second,
			script: func(_ *testHost, s *testShare) *Failure {
				if s.share == 0 {
					return exit(1)
				}
				n := s.e.Nodes[1].(*testNode)
				n.down.Store(true)
				<-s.ctx.Done()
				n.down.Store(false)
				return nil
			},
			states: "1 waiting, 1 starting, 1 running, 1 failing, 1 done",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, max(tt.nodes, 2), nil)
				h.script = func(s *testShare) *Failure { return tt.script(h, s) }
				if tt.setup != nil {
					tt.setup(h)
				}
				c := tt.config
				c.Host, c.Nodes, c.Shares = h, 2, 2
				began := time.Now()
				ok, err := Run(t.Context(), c)
				if took := time.Since(began); tt.within > 0 && took > tt.within {
					t.Errorf("it took %v", took)
				}
				if ok != tt.ok || !errors.Is(err, tt.err) {
					t.Fatalf("%t, %v; %q", ok, err, h.log)
				}
				if !ok && h.last()[0].Kind != tt.root {
					t.Errorf("root: %+v", h.last()[0])
				}
				if states := strings.Join(h.log, ", "); tt.states != "" && states != tt.states {
					t.Errorf("%s\nwant %s", states, tt.states)
				}
				if tt.look != nil {
					tt.look(t, h)
				}
				for e, alive := range h.alive {
					if alive > 0 {
						t.Errorf("%d shares of attempt %d live", alive, e)
					}
				}
			})
		})
	}
}

// keepsNodes fails if the gang has given a node back.
func keepsNodes(t *testing.T, h *testHost) {
	if slices.ContainsFunc(h.log, func(s string) bool { return strings.HasPrefix(s, "drop ") }) {
		t.Errorf("a node is given back: %q", h.log)
	}
}

// says returns a look that fails if the root cause does not say something.
func says(text string) func(*testing.T, *testHost) {
	return func(t *testing.T, h *testHost) {
		if f := h.last()[0]; !strings.Contains(f.Err.Error(), text) {
			t.Errorf("%v", f.Err)
		}
	}
}

// A gang whose caller ends it leaves nothing, whatever state it is in.
func TestGangIsCancelled(t *testing.T) {
	for _, at := range []time.Duration{0, time.Millisecond, time.Second, 1500 * time.Millisecond, 4 * time.Second, 6 * time.Second, 6500 * time.Millisecond} {
		t.Run(at.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, 2, func(s *testShare) *Failure {
					if s.share == 1 && s.sleep(time.Second) {
						return exit(1)
					}
					s.sleep(time.Hour)
					return nil
				})
				h.prepare = func(*Attempt, []int) []Failure { time.Sleep(10 * time.Millisecond); return nil }
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(at, func() { cancel(errGone) })
				ok, err := Run(ctx, Config{Host: h, Nodes: 2, Shares: 2, Restarts: 1})
				if ok || err != errGone {
					t.Errorf("%t, %v", ok, err)
				}
				for e, alive := range h.alive {
					if alive > 0 {
						t.Errorf("%d shares of attempt %d live", alive, e)
					}
				}
			})
		})
	}
}

// A gang goes on with the attempt that an earlier program has left.
func TestGangIsTakenUp(t *testing.T) {
	for name, released := range map[string]bool{"released": true, "not released": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, 2, func(s *testShare) *Failure { s.sleep(time.Second); return nil })
				nodes, _ := h.Grow(t.Context(), 2)
				ok, err := Run(t.Context(), Config{Host: h, Nodes: 2, Shares: 2, Released: released, Attempt: &Attempt{Number: 7, Nodes: nodes, From: time.Now()}})
				last := h.attempts[len(h.attempts)-1]
				if want := map[bool]int{true: 7, false: 8}[released]; !ok || err != nil || last.Number != want {
					t.Errorf("%t, %v, attempt %d, want %d: %q", ok, err, last.Number, want, h.log)
				}
			})
		})
	}
}

// A checkpoint is a step of a program that reports none, or a smaller one.
func TestCheckpointsAreSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 2, func(s *testShare) *Failure {
			if s.share == 0 {
				s.step(5)
				for _, n := range []int64{3, 5, 8} {
					s.track.Checkpoint(n)
				}
			}
			return nil
		})
		if ok, err := Run(t.Context(), Config{Host: h, Nodes: 2, Shares: 2}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if !slices.Equal(h.steps, []int64{5, 8}) {
			t.Errorf("steps %v", h.steps)
		}
	})
}
