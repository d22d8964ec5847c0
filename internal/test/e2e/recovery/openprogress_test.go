package recovery

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// If the context of Open ends, the error reports what Open was waiting for.
func TestOpenSaysWhatItWaitedFor(t *testing.T) {
	slow := func(ctx context.Context, cmd sim.Command) int {
		return e2etest.Words(ctx, sim.Command{Args: []string{"sleep", "1h"}})
	}
	for _, tt := range []struct {
		name  string
		cloud sim.Options
		spec  gputrain.Spec
		out   time.Duration // start of the API's outage, or 0 for none
		want  []string
	}{
		{"offers", sim.Options{Faults: []sim.Fault{{Op: sim.OpOffers, Kind: sim.Unavailable}}}, gputrain.Spec{}, 0,
			[]string{"while asking for offers", "offers: unavailable: 503: try again later"}},
		{"shared", sim.Options{Faults: []sim.Fault{{Op: sim.OpPrepare, Kind: sim.Unavailable}}}, gputrain.Spec{}, 0,
			[]string{"while making what the machines share", "prepare: unavailable: network: 503: try again later"}},
		{"a call that hangs", sim.Options{Faults: []sim.Fault{{Op: sim.OpPrepare, Kind: sim.Unavailable, Nth: 1}, {Op: sim.OpPrepare, Kind: sim.Delay, For: time.Hour}}}, gputrain.Spec{}, 0,
			[]string{"while making what the machines share", "try again later"}},
		{"launch", sim.Options{NoTokens: true, ListLag: time.Minute, Faults: []sim.Fault{{Op: sim.OpLaunch, Kind: sim.Unavailable}}}, gputrain.Spec{}, 0,
			[]string{"node 0 is launching for 25s", "-0 may have been made: 503: try again later", "until 00:01:15"}},
		{"boot", sim.Options{BootTime: time.Hour}, gputrain.Spec{Nodes: 2}, 0,
			[]string{"waiting for 2 nodes, of which 0 are ready", "node 0 is connecting for 25s, its machine i-1 is pending", "node 1 is connecting"}},
		{"ssh", sim.Options{Faults: []sim.Fault{{Op: sim.OpLaunch, Kind: sim.DeadSSH, Nth: 1}}}, gputrain.Spec{Nodes: 1}, 0,
			[]string{"node 0 is connecting for 25s, its machine i-1 is running, last failure: dial"}},
		{"provider", sim.Options{BootTime: time.Hour}, gputrain.Spec{}, 5 * time.Second,
			[]string{"node 0 is connecting for 25s, its machine i-1 is pending, last failure: describe: unavailable: the cloud does not answer"}},
		{"setup", sim.Options{Exec: slow}, gputrain.Spec{Image: gputrain.Image{Setup: []string{"make"}}}, 0,
			[]string{"node 0 is bootstrapping (setup 1/1) for 25s"}},
		{"many", sim.Options{BootTime: time.Hour}, gputrain.Spec{Nodes: 20}, 0,
			[]string{"node 3 is connecting", "and 16 more"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e2etest.InCloud(t, tt.cloud, func(t *testing.T, c *e2etest.SimCloud) {
				if tt.out > 0 {
					c.Outage(time.Now().Add(tt.out), 25*time.Second-tt.out)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
				defer cancel()
				_, err := gputrain.Open(ctx, sim.Config{Cloud: c.Cloud}, tt.spec, gputrain.WithStateDir(c.State))
				if e := (*gputrain.Error)(nil); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || e.Provider != "sim" || e.Op != "open" {
					t.Fatalf("%v", err)
				}
				for _, s := range tt.want {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("%v\nlacks %q", err, s)
					}
				}
				if live := c.Live(); len(live) > 0 {
					t.Errorf("these resources are left: %v", live)
				}
			})
		})
	}
}

// The error wraps the cause of the caller's context, whichever way the context ends.
func TestOpenIsCutShortByItsCallersCause(t *testing.T) {
	tired := errors.New("tired")
	for name, tt := range map[string]struct {
		ctx func(context.Context) (context.Context, context.CancelFunc)
		is  []error
		not error
	}{
		"a cause of a deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Minute, tired)
		}, []error{context.DeadlineExceeded, tired}, context.Canceled},
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Minute, cancel)
			return ctx, cancel
		}, []error{context.Canceled}, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			e2etest.InCloud(t, sim.Options{BootTime: time.Hour}, func(t *testing.T, c *e2etest.SimCloud) {
				ctx, cancel := tt.ctx(t.Context())
				defer cancel()
				_, err := gputrain.Open(ctx, sim.Config{Cloud: c.Cloud}, gputrain.Spec{}, gputrain.WithStateDir(c.State))
				for _, is := range tt.is {
					if !errors.Is(err, is) {
						t.Errorf("%v is not %v", err, is)
					}
				}
				if errors.Is(err, tt.not) || !strings.Contains(err.Error(), "node 0 is connecting for 1m0s") {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// A timeout of the pool or of a driver is not reported as a deadline of the caller, neither in
// errors nor in events.
func TestAnInternalTimeoutIsNoDeadline(t *testing.T) {
	hangs := []sim.Fault{{Op: sim.OpOffers, Kind: sim.Delay, For: 24 * time.Hour}}
	for name, tt := range map[string]struct {
		cloud sim.Options
		spec  gputrain.Spec
		is    error
	}{
		"not up":  {sim.Options{BootTime: time.Hour}, gputrain.Spec{}, gputrain.ErrUnavailable},
		"no SSH":  {sim.Options{Faults: []sim.Fault{{Op: sim.OpLaunch, Kind: sim.DeadSSH}}}, gputrain.Spec{}, gputrain.ErrUnavailable},
		"set up":  {sim.Options{Exec: func(ctx context.Context, cmd sim.Command) int { <-ctx.Done(); return 1 }}, gputrain.Spec{Image: gputrain.Image{Setup: []string{"make"}, PhaseTimeout: time.Minute}}, gputrain.ErrBootstrap},
		"expired": {sim.Options{Faults: hangs}, gputrain.Spec{TTL: time.Minute}, gputrain.ErrExpired},
	} {
		t.Run(name, func(t *testing.T) {
			tt.cloud.ProvisionTimeout, tt.spec.MaxReplacements = 2*time.Minute, -1
			e2etest.InCloud(t, tt.cloud, func(t *testing.T, c *e2etest.SimCloud) {
				_, err := gputrain.Open(t.Context(), sim.Config{Cloud: c.Cloud}, tt.spec, gputrain.WithStateDir(c.State), gputrain.WithEvents(c.Tell))
				if !errors.Is(err, tt.is) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v is a deadline", err)
				}
				for _, e := range c.Events() {
					if errors.Is(e.Err, context.DeadlineExceeded) {
						t.Errorf("the event %+v is a deadline", e)
					}
				}
			})
		})
	}
}
