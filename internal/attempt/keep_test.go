package attempt

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
)

// leave is a Bring of a node that has one file, in the scratch directory. It returns how often it was called there.
func (n *fakeNode) leave(t *testing.T, r *Runner, c *Command, name string) (calls *atomic.Int32) {
	calls = new(atomic.Int32)
	n.bring = func(_ context.Context, copies *transfer.Copies, o transfer.FetchOptions) error {
		if o.Dir != "scratch/"+c.NodeID {
			if o.Since != "marker/"+c.NodeID {
				t.Errorf("%+v", o)
			}
			return nil
		}
		calls.Add(1)
		dir, err := r.outputDir(&c.Attempt)
		if err != nil {
			return err
		}
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600)); err != nil {
			return err
		}
		return copies.Recall()
	}
	return calls
}

// set changes what the node does while files are brought.
func (n *fakeNode) set(bring func(ctx context.Context, c *transfer.Copies, o transfer.FetchOptions) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bring = bring
}

func namesOf(o *Outcome) (names []string) {
	for _, f := range o.Outputs {
		names = append(names, f.Name)
	}
	return names
}

// Files come however an attempt ended, if the node still has them, and the failure stays what it was.
func TestOutputsAfterFailures(t *testing.T) {
	lost := errors.New("the node is lost")
	for name, tt := range map[string]struct {
		exit                  supervisor.Exit
		err                   error
		lost, cancelled, drop bool
		cause                 Cause
		comes                 bool
	}{
		"code":               {exit: supervisor.Exit{Code: 3}, cause: Exit, comes: true},
		"signal":             {exit: supervisor.Exit{Cause: supervisor.Signaled, Signal: "KILL"}, cause: Signal, comes: true},
		"memory":             {exit: supervisor.Exit{Cause: supervisor.OutOfMemory}, cause: OutOfMemory, comes: true},
		"timeout":            {exit: supervisor.Exit{Cause: supervisor.TimedOut}, cause: Timeout, comes: true},
		"cancelled":          {exit: supervisor.Exit{Cause: supervisor.Cancelled}, cancelled: true, cause: Cancelled, comes: true},
		"dropped":            {exit: supervisor.Exit{Cause: supervisor.Cancelled}, cancelled: true, drop: true, cause: Cancelled},
		"code, not dropped":  {exit: supervisor.Exit{Code: 3}, drop: true, cause: Exit, comes: true},
		"output not kept":    {exit: supervisor.Exit{Cause: supervisor.Cancelled}, err: supervisor.ErrSink, cause: Outputs, comes: true},
		"no end is reported": {err: errors.New("no end"), cancelled: true, cause: Cancelled},
		"never started":      {err: supervisor.ErrNotStarted, cause: NeverStarted},
		"lost":               {err: lost, lost: true, cause: NodeLost},
		"overdue":            {err: supervisor.ErrOverdue, lost: true, cause: Timeout},
	} {
		n, c, r := &fakeNode{}, testCommand(t), testRunner(t, io.Discard)
		calls := n.leave(t, r, c, "a.txt")
		ctx, cancel := context.WithCancel(t.Context())
		c.Context, c.Outputs, c.DropIfCancelled = ctx, []string{"a.txt", "none.txt"}, tt.drop
		n.run = func(context.Context, supervisor.Spec, supervisor.Sinks) (supervisor.Exit, error) {
			if tt.lost {
				n.lost = lost
			}
			if tt.cancelled {
				cancel()
			}
			return tt.exit, tt.err
		}
		o := r.Run(ctx, n, n, c)
		cancel()
		if o.Failure == nil || o.Failure.Cause != tt.cause || o.ExitCode != tt.exit.Code {
			t.Errorf("%s: %+v", name, o.Failure)
		}
		if (calls.Load() == 1) != tt.comes || (len(o.Outputs) == 1) != tt.comes || (o.OutputDir != "") != tt.comes {
			t.Errorf("%s: %d calls, %v in %q", name, calls.Load(), o.Outputs, o.OutputDir)
		}
		if o.Failure != nil && o.Failure.Err != nil && strings.Contains(o.Failure.Err.Error(), "outputs") {
			t.Errorf("%s: %v", name, o.Failure.Err)
		}
		r.Keeping.Wait(0)
		if r.Keeping.n != 0 {
			t.Errorf("%s: %d attempts are still counted", name, r.Keeping.n)
		}
	}
}

// Files that do not come after a failure add to its text, and hide nothing of it.
func TestOutputsThatDoNotComeAfterAFailure(t *testing.T) {
	n, c := &fakeNode{fetch: errors.New("the disk hunter2hunter2 is broken")}, testCommand(t)
	c.Outputs = []string{"a.txt"}
	n.run = func(context.Context, supervisor.Spec, supervisor.Sinks) (supervisor.Exit, error) {
		return supervisor.Exit{Code: 3}, nil
	}
	f := testRunner(t, io.Discard).Run(t.Context(), n, n, c).Failure
	if f == nil || f.Cause != Exit || f.ExitCode != 3 || !errors.Is(f.Err, n.fetch) || !strings.Contains(f.Err.Error(), "its outputs could not be brought: the disk") {
		t.Errorf("%+v", f)
	}
	n.run = func(context.Context, supervisor.Spec, supervisor.Sinks) (supervisor.Exit, error) {
		return supervisor.Exit{Cause: supervisor.TimedOut}, nil
	}
	f = testRunner(t, io.Discard).Run(t.Context(), n, n, c).Failure
	if f == nil || f.Cause != Timeout || !strings.HasPrefix(f.Err.Error(), "ran longer than 1m0s; its outputs could not") {
		t.Errorf("%+v", f)
	}
}

// The files of a cancelled attempt have a minute. They count as still to come for as long.
func TestOutputsOfACancelledAttemptHaveAMinute(t *testing.T) {
	for name, end := range map[string]supervisor.Exit{"cancelled": {Cause: supervisor.Cancelled}, "done": {}} {
		synctest.Test(t, func(t *testing.T) {
			n, c, r := &fakeNode{}, testCommand(t), testRunner(t, io.Discard)
			ctx, cancel := context.WithCancel(t.Context())
			c.Context, c.Outputs, c.SyncEvery = ctx, []string{"a.txt"}, time.Hour
			n.bring = func(ctx context.Context, _ *transfer.Copies, _ transfer.FetchOptions) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			n.run = func(_ context.Context, _ supervisor.Spec, s supervisor.Sinks) (supervisor.Exit, error) {
				s.Started()
				time.AfterFunc(time.Second, cancel)
				if end.Cause == supervisor.Cancelled {
					<-ctx.Done()
				}
				return end, nil
			}
			began, waited := time.Now(), make(chan time.Duration, 1)
			go func() {
				time.Sleep(500 * time.Millisecond)
				r.Keeping.Wait(EndPatience)
				waited <- time.Since(began)
			}()
			f := r.Run(ctx, n, n, c).Failure
			if f == nil || f.Cause != Cancelled || !errors.Is(f.Err, context.Canceled) || end.Cause == supervisor.Cancelled && !strings.Contains(f.Err.Error(), "they did not come within 1m0s") {
				t.Errorf("%s: %+v", name, f)
			}
			if took, kept := time.Since(began), <-waited; took != time.Second+KeepPatience || kept != took {
				t.Errorf("%s: it took %v, and was waited for %v", name, took, kept)
			}
		})
	}
}

// Files come again and again while an attempt runs, one transfer at a time. What came stays when the node is lost.
func TestSync(t *testing.T) {
	for name, tt := range map[string]struct {
		lost bool
		exit supervisor.Exit
		want []string
	}{
		"lost":          {lost: true, want: []string{"a.txt"}},
		"done":          {want: []string{"a.txt"}},
		"failed":        {exit: supervisor.Exit{Code: 1}, want: []string{"a.txt"}},
		"resumed, lost": {lost: true, want: []string{"a.txt", "earlier.txt"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, c, r := &fakeNode{}, testCommand(t), testRunner(t, io.Discard)
			calls := n.leave(t, r, c, "a.txt")
			bring, running := n.bring, 0
			n.bring = func(ctx context.Context, copies *transfer.Copies, o transfer.FetchOptions) error {
				if running++; running > 1 || o.Bytes != 7 {
					t.Errorf("%d transfers at a time, %+v", running, o)
				}
				defer func() { running-- }()
				time.Sleep(15 * time.Second) // longer than SyncEvery
				return bring(ctx, copies, o)
			}
			r.Files.Bytes = 7
			c.Outputs, c.SyncEvery = []string{"*.txt"}, 10*time.Second
			n.run = func(_ context.Context, _ supervisor.Spec, s supervisor.Sinks) (supervisor.Exit, error) {
				s.Started()
				time.Sleep(55 * time.Second)
				if calls.Load() != 1 {
					t.Errorf("%s: after 55 s files came %d times", name, calls.Load())
				}
				if tt.lost {
					n.lost = errors.New("lost")
					n.set(nil)
					return supervisor.Exit{}, n.lost
				}
				return tt.exit, nil
			}
			run := r.Run
			if strings.HasPrefix(name, "resumed") {
				dir, err := r.outputDir(&c.Attempt)
				if err := errors.Join(err, os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "earlier.txt"), nil, 0o600)); err != nil {
					t.Fatal(err)
				}
				run = func(ctx context.Context, n Node, s Supervisor, c *Command) Outcome {
					return r.Resume(ctx, n, s, c, time.Now())
				}
			}
			o := run(t.Context(), n, n, c)
			if got := namesOf(&o); !slices.Equal(got, tt.want) || o.OutputDir == "" {
				t.Errorf("%s: %q in %q, %+v", name, got, o.OutputDir, o.Failure)
			}
			if (o.Failure == nil) != (name == "done") {
				t.Errorf("%s: %+v", name, o.Failure)
			}
		})
	}
}

// A success needs what its patterns say also if files came before, and a trouble with those is told once.
func TestSyncThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, c, r := &fakeNode{}, testCommand(t), testRunner(t, io.Discard)
		n.bring = func(context.Context, *transfer.Copies, transfer.FetchOptions) error {
			if time.Now().Second() >= 5 {
				return transfer.ErrUnsettled
			}
			return errors.New("no room")
		}
		var said []string
		c.SyncFailed = func(err error) { said = append(said, err.Error()) }
		c.Outputs, c.SyncEvery = []string{"a.txt"}, time.Second
		n.run = func(_ context.Context, _ supervisor.Spec, s supervisor.Sinks) (supervisor.Exit, error) {
			s.Started()
			time.Sleep(7500 * time.Millisecond)
			n.set(nil)
			return supervisor.Exit{}, nil
		}
		o := r.Run(t.Context(), n, n, c)
		if !slices.Equal(said, []string{"no room"}) {
			t.Errorf("%q", said)
		}
		if o.Failure == nil || o.Failure.Cause != Outputs || !strings.Contains(o.Failure.Err.Error(), `no file matches the pattern "a.txt"`) || o.OutputDir != "" {
			t.Errorf("%+v, %+v", o, o.Failure)
		}
	})
}

// A failure has the time at which the command ended, also if the news of it and its files come later.
func TestFailureAt(t *testing.T) {
	for name, tt := range map[string]struct {
		resumed bool
		elapsed time.Duration
		err     error
		want    time.Duration // after the start
	}{
		"late news":                        {elapsed: 10 * time.Second, want: 10 * time.Second},
		"the node does not know its clock": {want: 40 * time.Second},
		"the node's clock is wrong":        {elapsed: time.Hour, want: 40 * time.Second},
		"resumed":                          {resumed: true, elapsed: 25 * time.Second, want: 25 * time.Second},
		"its end is not known":             {err: errors.New("gone"), want: 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, c, r := &fakeNode{}, testCommand(t), testRunner(t, io.Discard)
				calls := n.leave(t, r, c, "a.txt")
				bring := n.bring
				n.bring = func(ctx context.Context, copies *transfer.Copies, o transfer.FetchOptions) error {
					time.Sleep(time.Minute)
					return bring(ctx, copies, o)
				}
				c.Outputs, c.SyncEvery = []string{"a.txt"}, time.Hour
				began := time.Now()
				n.run = func(_ context.Context, _ supervisor.Spec, s supervisor.Sinks) (supervisor.Exit, error) {
					if tt.resumed { // the command has begun, and this program has not
						time.Sleep(20 * time.Second)
					}
					s.Started()
					time.Sleep(time.Until(began.Add(40 * time.Second)))
					return supervisor.Exit{Code: 2, Elapsed: tt.elapsed}, tt.err
				}
				var early time.Time
				c.Failed = func(f *Failure) { early = f.At }
				run := func() Outcome { return r.Run(t.Context(), n, n, c) }
				if tt.resumed {
					run = func() Outcome { return r.Resume(t.Context(), n, n, c, began) }
				}
				f := run().Failure
				if f == nil || f.At.Sub(began) != tt.want || !early.Equal(f.At) || tt.err == nil && calls.Load() != 1 {
					t.Errorf("%v after the start, told %v: %+v", f.At.Sub(began), early.Sub(began), f)
				}
			})
		})
	}
}

// The failure of an attempt is told before its files come.
func TestFailedBeforeItsOutputs(t *testing.T) {
	n, c, r := &fakeNode{}, testCommand(t), testRunner(t, io.Discard)
	calls := n.leave(t, r, c, "a.txt")
	c.Outputs = []string{"a.txt"}
	told := 0
	c.Failed = func(f *Failure) {
		if told++; calls.Load() != 0 || f.Cause != Exit || f.ExitCode != 2 {
			t.Errorf("after %d calls: %+v", calls.Load(), f)
		}
	}
	n.run = func(context.Context, supervisor.Spec, supervisor.Sinks) (supervisor.Exit, error) {
		return supervisor.Exit{Code: 2}, nil
	}
	if r.Run(t.Context(), n, n, c); told != 1 || calls.Load() != 1 {
		t.Errorf("told %d times, brought %d times", told, calls.Load())
	}
}
