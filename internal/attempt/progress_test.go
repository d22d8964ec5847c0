package attempt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/steps"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/providers/driver"
)

// A diary records the calls of a Progress.
type diary struct {
	mu    sync.Mutex
	steps []string // "rank:step/of"
	bytes int
	last  steps.Step
}

func (d *diary) Step(s steps.Step) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps = append(d.steps, fmt.Sprintf("%d:%d/%d", s.Rank, s.N, s.Of))
	d.last = s
}

func (d *diary) Output(p []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bytes += len(p)
}

func (d *diary) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.steps)
}

// Steps are found in both streams, behind the prefixes of launchers, in pieces, and in a last line without an end.
func TestStepsInOutput(t *testing.T) {
	n, c, got := &fakeNode{}, testCommand(t), &diary{}
	c.Progress, c.Secrets = got, map[string]driver.Secret{"TOKEN": "hunter2hunter2"}
	n.run = func(_ context.Context, _ supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error) {
		sinks.Started()
		io.WriteString(sinks.Stdout, "hello\n[default0]:gputrain: st")
		io.WriteString(sinks.Stderr, "[1,3]<stderr>:gputrain: step=1/9\r\n")
		io.WriteString(sinks.Stdout, "ep=2\ngputrain: step=3 hunter2hunter2=1 loss=0.5")
		return supervisor.Exit{Cause: supervisor.Exited}, nil
	}
	o := testRunner(t, io.Discard).Run(t.Context(), n, n, c)
	if want := []string{"3:1/9", "-1:2/0", "-1:3/0"}; !slices.Equal(got.steps, want) || int64(got.bytes) != o.Stdout.Bytes+o.Stderr.Bytes {
		t.Errorf("%v, %d bytes", got.steps, got.bytes)
	}
	if len(got.last.Values) != 2 || got.last.Values["loss"] != 0.5 || got.last.Values["[redacted]"] != 1 {
		t.Errorf("%v", got.last.Values)
	}
}

// Step files of all commands on a node are read with one command, every ten seconds once there are some, and at a command's
// end if it has left some.
func TestStepFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, r := &fakeNode{}, testRunner(t, io.Discard)
		var mu sync.Mutex
		var asked []string
		begun := time.Now()
		n.exec = func(_ context.Context, command string) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, fmt.Sprintf("%v %d", time.Since(begun).Round(time.Second), strings.Count(command, "[0-9]*")))
			at := int(time.Since(begun) / time.Second)
			return fmt.Sprintf("a.steps/0:%d/900 loss=1\na.steps/tmp:5\na.steps/1:nonsense\nz.steps/0:4\n", at), &ssh.ExitError{Code: 1}
		}
		n.run = func(_ context.Context, spec supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error) {
			sinks.Started()
			time.Sleep(time.Duration(len(spec.ID)) * 45 * time.Second)
			return supervisor.Exit{Cause: supervisor.Exited, Steps: spec.ID == "a"}, nil
		}
		var running sync.WaitGroup
		got := map[string]*diary{}
		for _, id := range []string{"a", "b", "cc"} {
			c := testCommand(t)
			c.NodeID, got[id] = id, &diary{}
			c.Progress = got[id]
			running.Go(func() { r.Run(t.Context(), n, n, c) })
		}
		running.Wait()
		if want := []string{"0:10/900", "0:20/900", "0:30/900", "0:40/900", "0:45/900"}; !slices.Equal(got["a"].all(), want) {
			t.Errorf("%v", got["a"].all())
		}
		if got["b"].all() != nil || got["cc"].all() != nil {
			t.Errorf("%v, %v", got["b"].all(), got["cc"].all())
		}
		// What has none is looked at after ever longer pauses.
		if want := []string{"10s 3", "20s 3", "30s 1", "40s 3", "45s 1", "1m20s 1"}; !slices.Equal(asked, want) {
			t.Errorf("asked %v", asked)
		}
		if len(r.looks.nodes) > 0 {
			t.Error("nodes are remembered")
		}
	})
}

// Short commands without step files, and those whose progress no one wants to know, cost no command.
func TestStepFilesAreNotLookedForInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, r := &fakeNode{}, testRunner(t, io.Discard)
		n.exec = func(_ context.Context, command string) (string, error) {
			t.Errorf("asked %s", command)
			return "", nil
		}
		short := func(_ context.Context, _ supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error) {
			sinks.Started()
			time.Sleep(firstLook - 1)
			return supervisor.Exit{Cause: supervisor.Exited}, nil
		}
		n.run = short
		c := testCommand(t)
		c.Progress = &diary{}
		r.Run(t.Context(), n, n, c)
		n.run = func(ctx context.Context, s supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error) {
			time.Sleep(time.Hour)
			return short(ctx, s, sinks)
		}
		r.Run(t.Context(), n, n, testCommand(t))
	})
}

// A run that goes on until it is ended, as the supervisor's does.
func untilEnded(do func(sinks supervisor.Sinks)) func(context.Context, supervisor.Spec, supervisor.Sinks) (supervisor.Exit, error) {
	return func(ctx context.Context, _ supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error) {
		sinks.Started()
		do(sinks)
		<-ctx.Done()
		return supervisor.Exit{Cause: supervisor.Cancelled, Signal: "TERM"}, nil
	}
}

func TestStall(t *testing.T) {
	const m = time.Minute
	for name, tt := range map[string]struct {
		do       func(n *fakeNode, sinks supervisor.Sinks)
		from, to time.Duration // when it is ended
		says     string
	}{
		"nothing is printed": {func(*fakeNode, supervisor.Sinks) {}, 10 * m, 11 * m, "printed nothing"},
		"output": {func(_ *fakeNode, s supervisor.Sinks) {
			time.Sleep(7 * m)
			io.WriteString(s.Stderr, "x")
		}, 17 * m, 18 * m, "printed nothing"},
		"output after a step": {func(_ *fakeNode, s supervisor.Sinks) {
			io.WriteString(s.Stdout, "gputrain: step=7\n")
			for range 30 {
				time.Sleep(m)
				io.WriteString(s.Stdout, "gputrain: step=6\nstill here\n")
			}
		}, 10 * m, 31 * m, "step 7"},
		"steps": {func(_ *fakeNode, s supervisor.Sinks) {
			for i := range 30 {
				io.WriteString(s.Stdout, fmt.Sprintf("gputrain: step=%d\n", i))
				time.Sleep(m)
			}
		}, 39 * m, 41 * m, "step 29"},
		"the node cannot be reached": {func(n *fakeNode, _ supervisor.Sinks) {
			time.Sleep(7 * m)
			n.down.Store(true)
			time.Sleep(time.Hour)
			n.down.Store(false)
		}, 70 * m, 71 * m, "for 10m"},
		"a cut that is not noticed": {func(n *fakeNode, _ supervisor.Sinks) {
			begun := time.Now()
			n.mu.Lock()
			defer n.mu.Unlock()
			n.exec = func(context.Context, string) (string, error) {
				if time.Since(begun) < 20*m {
					return "", ssh.ErrDisconnected
				}
				return "deep in it", nil
			}
		}, 20 * m, 21 * m, "printed nothing"},
		"a step file": {func(n *fakeNode, _ supervisor.Sinks) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.exec = func(context.Context, string) (string, error) { return "t1-a2-s0.steps/0:3\ndeep in it", nil }
		}, 10 * m, 11 * m, "step 3"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, c := &fakeNode{}, testCommand(t)
				n.exec = func(context.Context, string) (string, error) { return "deep in it", nil }
				c.Timeout, c.Stall = 0, NewStall(10*m)
				n.run = untilEnded(func(sinks supervisor.Sinks) { tt.do(n, sinks) })
				begun := time.Now()
				o := testRunner(t, io.Discard).Run(t.Context(), n, n, c)
				took := time.Since(begun)
				f := o.Failure
				if f == nil || f.Cause != Stalled || !errors.Is(f.Err, driver.ErrStalled) || !strings.Contains(f.Err.Error(), tt.says) || !strings.Contains(f.Stack, "deep in it") {
					t.Fatalf("%+v", f)
				}
				if took < tt.from || took > tt.to {
					t.Errorf("after %v", took)
				}
			})
		})
	}
}

// An end by itself, a cancellation and the loss of the node are what they are, also shortly after a stall.
func TestStallJudged(t *testing.T) {
	lost := errors.New("the node is lost")
	for name, tt := range map[string]struct {
		ends func(n *fakeNode, cancel func()) (supervisor.Exit, error)
		want Cause
	}{
		"exit": {func(*fakeNode, func()) (supervisor.Exit, error) {
			return supervisor.Exit{Cause: supervisor.Exited, Code: 3}, nil
		}, Exit},
		"cancelled": {func(_ *fakeNode, cancel func()) (supervisor.Exit, error) {
			cancel()
			return supervisor.Exit{Cause: supervisor.Cancelled}, nil
		}, Cancelled},
		"lost": {func(n *fakeNode, _ func()) (supervisor.Exit, error) {
			n.lost = lost
			return supervisor.Exit{Cause: supervisor.Cancelled}, nil
		}, NodeLost},
		"does not end": {func(*fakeNode, func()) (supervisor.Exit, error) {
			return supervisor.Exit{}, fmt.Errorf("no end is reported: %w", driver.ErrStalled)
		}, Stalled},
		"another error": {func(*fakeNode, func()) (supervisor.Exit, error) { return supervisor.Exit{}, errors.New("no") }, Outputs},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, c := &fakeNode{}, testCommand(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c.Timeout, c.Context, c.Stall = 0, ctx, NewStall(time.Minute)
				n.run = func(watched context.Context, _ supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error) {
					sinks.Started()
					<-watched.Done()
					return tt.ends(n, cancel)
				}
				if f := testRunner(t, io.Discard).Run(ctx, n, n, c).Failure; f == nil || f.Cause != tt.want {
					t.Errorf("%+v", f)
				}
			})
		})
	}
}

// A command that has ended is not watched any more.
func TestStallEndsWithTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, c := &fakeNode{}, testCommand(t)
		c.Stall = NewStall(time.Minute)
		n.run = func(ctx context.Context, _ supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error) {
			sinks.Started()
			time.Sleep(30 * time.Second)
			return supervisor.Exit{Cause: supervisor.Exited}, ctx.Err()
		}
		if f := testRunner(t, io.Discard).Run(t.Context(), n, n, c).Failure; f != nil {
			t.Errorf("%+v", f)
		}
	})
}
