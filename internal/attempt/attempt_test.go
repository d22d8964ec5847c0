package attempt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/providers/driver"
)

// A fakeNode is a node without a machine. run decides what happens to a command there.
type fakeNode struct {
	run   func(ctx context.Context, spec supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error)
	files map[string][]transfer.File // by folder
	fetch error
	lost  error

	mu    sync.Mutex
	bring func(ctx context.Context, c *transfer.Copies, o transfer.FetchOptions) error // guarded by mu

	released []string
	since    time.Time

	down atomic.Bool
	exec func(ctx context.Context, command string) (string, error) // guarded by mu; may be nil
}

func (n *fakeNode) Rank() int               { return 3 }
func (n *fakeNode) Facts() supervisor.Facts { return supervisor.Facts{Root: "/pool"} }
func (n *fakeNode) Files() Files            { return n }
func (n *fakeNode) IsOver() bool            { return n.lost != nil }
func (n *fakeNode) Err() error              { return n.lost }
func (n *fakeNode) Release(id string)       { n.released = append(n.released, id) }

func (n *fakeNode) IsUp() bool { return !n.down.Load() }

func (n *fakeNode) Exec(ctx context.Context, command string, _ io.Reader, stdout, _ io.Writer) error {
	n.mu.Lock()
	exec := n.exec
	n.mu.Unlock()
	if exec == nil {
		return nil
	}
	out, err := exec(ctx, command)
	io.WriteString(stdout, out)
	return err
}

func (n *fakeNode) Scratch(id string) string { return "scratch/" + id }
func (n *fakeNode) Marker(id string) string  { return "marker/" + id }

func (n *fakeNode) Run(ctx context.Context, spec supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error) {
	return n.run(ctx, spec, sinks)
}

func (n *fakeNode) Resume(ctx context.Context, spec supervisor.Spec, since time.Time, sinks supervisor.Sinks) (supervisor.Exit, error) {
	n.since = since
	return n.run(ctx, spec, sinks)
}

func (n *fakeNode) Fetch(_ context.Context, _ []string, _ string, o transfer.FetchOptions) ([]transfer.File, error) {
	return n.files[o.Dir], n.fetch
}

func (n *fakeNode) Bring(ctx context.Context, _ []string, c *transfer.Copies, o transfer.FetchOptions) error {
	n.mu.Lock()
	bring := n.bring
	n.mu.Unlock()
	if bring == nil {
		return n.fetch
	}
	return bring(ctx, c, o)
}

func (n *fakeNode) Near(context.Context, []string, string) ([]transfer.Near, error) {
	return nil, errors.New("not asked")
}

// testRunner returns a runner that writes the shown stdout to a writer.
func testRunner(t *testing.T, stdout io.Writer) *Runner {
	secrets, dir := &output.Redactor{}, t.TempDir()
	return &Runner{
		Printer: output.NewPrinter(stdout, nil, false, secrets), Secrets: secrets,
		Results: output.NewResults(output.NewDir("p", "", func() (string, error) { return dir, nil }), output.Limits{Stream: 100, StreamMemory: 100, Memory: 1000}),
	}
}

func testCommand(t *testing.T) *Command {
	return &Command{
		Attempt: Attempt{ID: "t1-a2", From: output.Source{Label: "train"}, Context: t.Context(), Timeout: time.Minute, Share: &output.Share{}, Dir: "work", Started: func() {}},
		NodeID:  "t1-a2-s0", Args: []string{"train"}, Place: Place{Nodes: 1},
	}
}

// A command's own variables override those of its place. Its output, exit code and time are in its outcome. The node
// forgets it only when the outcome is released.
func TestCommand(t *testing.T) {
	var shown bytes.Buffer
	n, c := &fakeNode{}, testCommand(t)
	c.Env, c.Secrets, c.Stdin = map[string]string{"GPUTRAIN_SLOT": "mine", "A": "1"}, map[string]driver.Secret{"TOKEN": "hunter2hunter2"}, []byte("in")
	c.Place = Place{Node: "p-7", NodeRank: 7, Rank: 1, Nodes: 2, MasterAddr: "10.0.0.1", Slot: 0, Devices: map[string]string{"CUDA_VISIBLE_DEVICES": "2,3"}, Index: 1, Attempt: 2}
	began := 0
	c.Started = func() { began++ }
	n.run = func(_ context.Context, spec supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error) {
		want := map[string]string{
			"GPUTRAIN_NODE": "p-7", "GPUTRAIN_NODE_RANK": "7", "GPUTRAIN_RANK": "1", "GPUTRAIN_NODES": "2", "GPUTRAIN_MASTER_ADDR": "10.0.0.1",
			"GPUTRAIN_SLOT": "mine", "GPUTRAIN_TASK_INDEX": "1", "GPUTRAIN_ATTEMPT": "2", "A": "1", "CUDA_VISIBLE_DEVICES": "2,3",
		}
		if in, _ := io.ReadAll(spec.Stdin); !maps.Equal(spec.Env, want) || spec.Secrets["TOKEN"] != "hunter2hunter2" || string(in) != "in" ||
			spec.ID != "t1-a2-s0" || spec.Dir != "work" || spec.Timeout != time.Minute || !spec.Scratch || spec.Mark || !sinks.Live {
			t.Errorf("the node is asked for %+v, live=%v", spec, sinks.Live)
		}
		sinks.Started()
		io.WriteString(sinks.Stdout, "it is hunter2hunter2\n")
		io.WriteString(sinks.Stderr, "so it is, hunter2hunter2\n")
		return supervisor.Exit{Cause: supervisor.Exited, Code: 4, Elapsed: time.Second}, nil
	}
	o := testRunner(t, &shown).Run(t.Context(), n, n, c)
	if o.ExitCode != 4 || o.Elapsed != time.Second || string(o.Stdout.Head) != "it is hunter2hunter2\n" || o.Stderr.Bytes != 25 || o.Truncated || began != 1 {
		t.Errorf("%+v, started %d times", o, began)
	}
	if f := o.Failure; f == nil || f.Cause != Exit || f.ExitCode != 4 || f.Tail != "so it is, [redacted]" {
		t.Errorf("%+v", f)
	}
	if shown.String() != "[train] it is [redacted]\n" {
		t.Errorf("shown: %q", shown.String())
	}
	if n.released != nil {
		t.Error("the node has forgotten it before the outcome is released")
	}
	if o.Release(); !slices.Equal(n.released, []string{"t1-a2-s0"}) {
		t.Errorf("%v are released", n.released)
	}
}

// A resumed command is not started again, and its output and files are kept.
func TestResumedCommand(t *testing.T) {
	n, c := &fakeNode{}, testCommand(t)
	n.run = func(_ context.Context, spec supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error) {
		if spec.ID != "t1-a2-s0" || spec.Args != nil || spec.Timeout != time.Minute {
			t.Errorf("the node is asked for %+v", spec)
		}
		io.WriteString(sinks.Stdout, strings.Repeat("x", 101))
		return supervisor.Exit{Cause: supervisor.Exited}, nil
	}
	since := time.Unix(12, 0)
	if o := testRunner(t, io.Discard).Resume(t.Context(), n, n, c, since); o.Failure != nil || o.Stdout.Bytes != 101 || !o.Truncated || !n.since.Equal(since) {
		t.Errorf("%+v, since %v", o, n.since)
	}
}

// Each way in which a command can end has a cause of its own. The loss of a node, and a cancellation, take precedence over
// errors that follow from them.
func TestCommandFailures(t *testing.T) {
	lost, broken := errors.New("the node is lost"), errors.New("the disk is broken")
	for name, tt := range map[string]struct {
		exit            supervisor.Exit
		err             error
		lost, cancelled bool
		want            *Failure
		is              error
	}{
		"success":                 {exit: supervisor.Exit{Cause: supervisor.Exited}},
		"success of a lost node":  {exit: supervisor.Exit{Cause: supervisor.Exited}, lost: true},
		"exit code":               {exit: supervisor.Exit{Cause: supervisor.Exited, Code: 2}, want: &Failure{Cause: Exit, ExitCode: 2}},
		"exit code, full disk":    {exit: supervisor.Exit{Cause: supervisor.Exited, Code: 2, DiskFull: true}, want: &Failure{Cause: Exit, ExitCode: 2}, is: syscall.ENOSPC},
		"success, full disk":      {exit: supervisor.Exit{Cause: supervisor.Exited, DiskFull: true}, want: &Failure{Cause: Outputs, ExitCode: -1}, is: errOutputCut},
		"signal":                  {exit: supervisor.Exit{Cause: supervisor.Signaled, Signal: "KILL"}, want: &Failure{Cause: Signal, ExitCode: -1, Signal: "KILL"}},
		"memory":                  {exit: supervisor.Exit{Cause: supervisor.OutOfMemory, Signal: "KILL"}, want: &Failure{Cause: OutOfMemory, ExitCode: -1, Signal: "KILL"}},
		"timeout":                 {exit: supervisor.Exit{Cause: supervisor.TimedOut}, want: &Failure{Cause: Timeout, ExitCode: -1}},
		"cancelled":               {exit: supervisor.Exit{Cause: supervisor.Cancelled}, cancelled: true, want: &Failure{Cause: Cancelled, ExitCode: -1}, is: context.Canceled},
		"cancelled with the node": {exit: supervisor.Exit{Cause: supervisor.Cancelled}, lost: true, want: &Failure{Cause: NodeLost, ExitCode: -1}, is: lost},
		"cancelled on the node":   {exit: supervisor.Exit{Cause: supervisor.Cancelled}, want: &Failure{Cause: Cancelled, ExitCode: -1}},
		"lost":                    {err: broken, lost: true, want: &Failure{Cause: NodeLost, ExitCode: -1}, is: lost},
		"lost and cancelled":      {err: broken, lost: true, cancelled: true, want: &Failure{Cause: Cancelled, ExitCode: -1}, is: context.Canceled},
		"overdue":                 {err: supervisor.ErrOverdue, lost: true, want: &Failure{Cause: Timeout, ExitCode: -1}, is: supervisor.ErrOverdue},
		"not started":             {err: supervisor.ErrNotStarted, want: &Failure{Cause: NeverStarted, ExitCode: -1}, is: supervisor.ErrNotStarted},
		"not started, full disk":  {err: fmt.Errorf("%w: %w", supervisor.ErrNotStarted, supervisor.ErrDiskFull), want: &Failure{Cause: NeverStarted, ExitCode: -1}, is: syscall.ENOSPC},
		"output not kept":         {err: broken, want: &Failure{Cause: Outputs, ExitCode: -1}, is: broken},
	} {
		n, c := &fakeNode{}, testCommand(t)
		ctx, cancel := context.WithCancel(t.Context())
		c.Context = ctx
		n.run = func(context.Context, supervisor.Spec, supervisor.Sinks) (supervisor.Exit, error) {
			if tt.lost {
				n.lost = lost
			}
			if tt.cancelled {
				cancel()
			}
			return tt.exit, tt.err
		}
		got := testRunner(t, io.Discard).Run(ctx, n, n, c).Failure
		cancel()
		if (got == nil) != (tt.want == nil) {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		if got == nil {
			continue
		}
		if tt.is != nil && !errors.Is(got.Err, tt.is) {
			t.Errorf("%s: %v", name, got.Err)
		}
		if got.At.IsZero() {
			t.Errorf("%s: no time", name)
		}
		got.Err, got.At = nil, time.Time{}
		if *got != *tt.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A command whose program was not found, and whose name is a line for a shell, fails with what to use instead. A secret in it is
// not shown.
func TestCommandIsALineForAShell(t *testing.T) {
	for _, tt := range []struct {
		args  []string
		code  int
		hints bool
	}{
		{[]string{"echo hello hunter2hunter2"}, 127, true},
		{[]string{"./train.py --lr 0.1"}, 127, true},
		{[]string{"echo hello"}, 1, false},
		{[]string{"echo", "hello world"}, 127, false},
		{[]string{"ehco"}, 127, false},
	} {
		n, c := &fakeNode{}, testCommand(t)
		c.Args, c.Secrets = tt.args, map[string]driver.Secret{"TOKEN": "hunter2hunter2"}
		n.run = func(context.Context, supervisor.Spec, supervisor.Sinks) (supervisor.Exit, error) {
			return supervisor.Exit{Cause: supervisor.Exited, Code: tt.code}, nil
		}
		f := testRunner(t, io.Discard).Run(t.Context(), n, n, c).Failure
		text := fmt.Sprint(f.Err)
		if f.Cause != Exit || f.ExitCode != tt.code || strings.Contains(text, "Script") != tt.hints || strings.Contains(text, "hunter2") {
			t.Errorf("%q with exit code %d: %+v", tt.args, tt.code, f)
		}
	}
}

// A success without its output files fails. Files that arrived are in the outcome, each name once.
func TestCollect(t *testing.T) {
	a, b := transfer.File{Name: "a.txt", Size: 1}, transfer.File{Name: "b.txt", Size: 2}
	later := transfer.File{Name: "a.txt", Size: 3}
	cut := errors.New("the connection is cut")
	for name, tt := range map[string]struct {
		outputs []string
		files   map[string][]transfer.File
		err     error
		lost    bool
		want    []transfer.File
		cause   Cause // -1 for a success
		says    string
	}{
		"none wanted":      {cause: -1},
		"from two folders": {outputs: []string{"*.txt"}, files: map[string][]transfer.File{"work": {b, a}, "scratch/t1-a2-s0": {later}}, want: []transfer.File{later, b}, cause: -1},
		"optional":         {outputs: []string{OptionalMark + "c.txt"}, cause: -1},
		"none":             {outputs: []string{"c.txt", OptionalMark + "a.txt"}, files: map[string][]transfer.File{"work": {a}}, want: []transfer.File{a}, cause: Outputs, says: `no file matches the pattern "c.txt": neither`},
		"cut":              {outputs: []string{"a.txt"}, files: map[string][]transfer.File{"work": {a}}, err: cut, want: []transfer.File{a}, cause: Outputs, says: "cut"},
		"lost":             {outputs: []string{"a.txt"}, err: cut, lost: true, cause: NodeLost, says: "the node is lost"},
		"too many":         {outputs: []string{"a.txt"}, err: &transfer.LimitError{Files: true, Most: 1}, cause: Outputs, says: "for more set Limits.DownloadFiles"},
	} {
		n, c := &fakeNode{files: tt.files, fetch: tt.err}, testCommand(t)
		c.Outputs = tt.outputs
		n.run = func(_ context.Context, spec supervisor.Spec, _ supervisor.Sinks) (supervisor.Exit, error) {
			if spec.Mark != (tt.outputs != nil) {
				t.Errorf("%s: mark=%v", name, spec.Mark)
			}
			if tt.lost {
				n.lost = errors.New("the node is lost")
			}
			return supervisor.Exit{Cause: supervisor.Exited}, nil
		}
		o := testRunner(t, io.Discard).Run(t.Context(), n, n, c)
		if !slices.Equal(o.Outputs, tt.want) || (o.OutputDir != "") != (len(tt.want) > 0) {
			t.Errorf("%s: %v in %q", name, o.Outputs, o.OutputDir)
		}
		switch {
		case tt.cause < 0 && o.Failure != nil:
			t.Errorf("%s: %+v", name, o.Failure)
		case tt.cause < 0:
		case o.Failure == nil || o.Failure.Cause != tt.cause || !strings.Contains(o.Failure.Err.Error(), tt.says):
			t.Errorf("%s: %+v", name, o.Failure)
		}
	}
}

// All output of a command with a terminal is stdout, the end of which is in its failure.
func TestTerminal(t *testing.T) {
	var shown bytes.Buffer
	n, c := &fakeNode{}, testCommand(t)
	c.TTY = true
	n.run = func(_ context.Context, spec supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error) {
		if !spec.TTY {
			t.Errorf("the node is asked for %+v", spec)
		}
		io.WriteString(sinks.Stdout, "\r 50%\r100%\nit failed\n")
		return supervisor.Exit{Cause: supervisor.Exited, Code: 4}, nil
	}
	o := testRunner(t, &shown).Run(t.Context(), n, n, c)
	if string(o.Stdout.Head) != "\r 50%\r100%\nit failed\n" || o.Stderr.Bytes != 0 || o.Failure == nil || !strings.HasSuffix(o.Failure.Tail, "\nit failed") {
		t.Errorf("%+v, %+v", o, o.Failure)
	}
	if !strings.HasSuffix(shown.String(), "[train] 100%\n[train] it failed\n") {
		t.Errorf("shown: %q", shown.String())
	}
}
