//go:build unix

package calls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/program"
	"github.com/gputrain/gputrain/internal/steps"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/worker"
	"github.com/gputrain/gputrain/providers/driver"
)

func TestMain(m *testing.M) {
	register := func(name string, f func(ctx context.Context, arg string) (string, error)) {
		worker.Register(name, func(ctx context.Context, arg codec.Body, _ *worker.Stream) (codec.Body, error) {
			out, err := f(ctx, string(arg.Head))
			return codec.Body{Head: []byte(out)}, err
		})
	}
	register("pid", func(context.Context, string) (string, error) { return strconv.Itoa(os.Getpid()), nil })
	register("print", func(_ context.Context, text string) (string, error) { fmt.Print(text); return "", nil })
	register("fail", func(context.Context, string) (string, error) { return "", errors.New("it failed") })
	register("panic", func(context.Context, string) (string, error) { panic("at the function") })
	register("exit", func(context.Context, string) (string, error) {
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(3)
		return "", nil
	})
	register("kill", func(context.Context, string) (string, error) {
		return "", errors.Join(syscall.Kill(os.Getpid(), syscall.SIGKILL), errors.New("and yet it lives"))
	})
	// stubborn ignores its context and goes on until a file exists. It makes another file when it begins.
	register("stubborn", func(_ context.Context, file string) (string, error) {
		err := os.WriteFile(file+".runs", nil, 0o600)
		for !exists(file) {
			time.Sleep(time.Millisecond)
		}
		fmt.Println("the end")
		return strconv.Itoa(os.Getpid()), err
	})
	register("step", func(ctx context.Context, _ string) (string, error) {
		fmt.Println("gputrain: step=3/9")
		worker.Report(ctx, steps.Step{N: 4, Of: 9, Rank: -1})
		return "", nil
	})
	// hang waits for the end of its context, and then prints the cause.
	register("hang", func(ctx context.Context, _ string) (string, error) {
		worker.Report(ctx, steps.Step{N: 7, Rank: -1})
		<-ctx.Done()
		return "", fmt.Errorf("it ended: %w", context.Cause(ctx))
	})
	register("chatter", func(ctx context.Context, file string) (string, error) {
		for !exists(file) {
			fmt.Println("still here")
			time.Sleep(20 * time.Millisecond)
		}
		return "", nil
	})
	if os.Getenv("CALLS_TEST_DIE") != "" && strings.HasPrefix(os.Getenv(worker.Env), "serve:") {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if mode := os.Getenv(worker.Env); mode != "" {
		worker.Main(mode)
	}
	goleak.VerifyTestMain(m)
}

func exists(file string) bool { _, err := os.Stat(file); return err == nil }

// until waits until is returns true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within two minutes", what)
		}
	}
}

// A fakeNode stands for this computer. It runs processes without a supervisor, and keeps their output for the
// program that resumes them.
type fakeNode struct {
	root  string
	ctx   context.Context
	begin func() // called before a process starts

	mu     sync.Mutex
	procs  map[string]*fakeProcess
	kept   []Worker
	failed error
}

type fakeProcess struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	done     chan struct{}
}

func newFakeNode(t *testing.T) *fakeNode {
	dir, err := os.MkdirTemp("", "calls") // paths from t.TempDir are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &fakeNode{root: dir, ctx: ctx, procs: map[string]*fakeProcess{}}
	t.Cleanup(func() {
		cancel()
		for _, p := range n.procs {
			_ = p.cmd.Process.Kill()
			<-p.done
		}
		os.RemoveAll(dir)
	})
	return n
}

// newTestHost returns a host on the node, for the program of a generation.
func newTestHost(t *testing.T, n *fakeNode, generation int, grace time.Duration) *Host {
	var wg sync.WaitGroup
	h := NewHost(Config{Runner: testRunner(t, io.Discard), Programs: n, Go: wg.Go, Generation: generation, Grace: grace, ResultBytes: 1 << 20}, n)
	t.Cleanup(func() {
		h.Close()
		wg.Wait()
	})
	return h
}

func (n *fakeNode) Rank() int                  { return 0 }
func (n *fakeNode) Provider() string           { return "fake" }
func (n *fakeNode) Name() string               { return "p-0" }
func (n *fakeNode) Addr() string               { return "127.0.0.1" }
func (n *fakeNode) SSHAddr() string            { return "127.0.0.1:22" }
func (n *fakeNode) Context() context.Context   { return n.ctx }
func (n *fakeNode) Files() attempt.Files       { return nil }
func (n *fakeNode) IsUp() bool                 { return true }
func (n *fakeNode) IsOver() bool               { return n.Err() != nil }
func (n *fakeNode) Supervisor() Supervisor     { return n }
func (n *fakeNode) Hasten(string) func()       { return func() {} }
func (n *fakeNode) Describe() worker.NodeFacts { return worker.NodeFacts{Pool: "p"} }
func (n *fakeNode) Facts() supervisor.Facts {
	return supervisor.Facts{Root: n.root, CacheDir: n.root, OS: "linux", Arch: "amd64"}
}

func (n *fakeNode) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed
}

func (n *fakeNode) Fail(reason error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = reason
}

func (n *fakeNode) KeepWorker(w Worker) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kept = append(n.kept, w)
}

// workers returns the recorded workers.
func (n *fakeNode) workers() []Worker {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.kept)
}

// process returns the process of a worker.
func (n *fakeNode) process(name string) *fakeProcess {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.procs[name]
}

func (n *fakeNode) Ship(_ context.Context, to program.Node) (program.Program, error) {
	left := to.Leftovers()
	for _, file := range left {
		os.RemoveAll(file)
	}
	to.Removed(left)
	name, digest, err := worker.SelfDigest()
	return program.Program{Path: name, Digest: digest}, errors.Join(err, os.MkdirAll(to.Scratch, 0o700))
}

func (n *fakeNode) Exec(context.Context, string, io.Reader, io.Writer, io.Writer) error {
	return errors.New("not asked")
}

func (n *fakeNode) Run(ctx context.Context, spec supervisor.Spec, sinks supervisor.Sinks) (supervisor.Exit, error) {
	p := &fakeProcess{cmd: exec.Command(spec.Args[0]), done: make(chan struct{})}
	p.cmd.Env = os.Environ()
	for name, value := range spec.Env {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	p.cmd.Stdout, p.cmd.Stderr = io.MultiWriter(&p.out, sinks.Stdout), io.MultiWriter(&p.err, sinks.Stderr)
	if n.begin != nil {
		n.begin()
	}
	if err := p.cmd.Start(); err != nil {
		return supervisor.Exit{}, err
	}
	n.mu.Lock()
	n.procs[spec.ID] = p
	n.mu.Unlock()
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	return p.wait(ctx)
}

func (n *fakeNode) Resume(ctx context.Context, spec supervisor.Spec, _ time.Time, sinks supervisor.Sinks) (supervisor.Exit, error) {
	p := n.process(spec.ID)
	exit, err := p.wait(ctx)
	sinks.Stdout.Write(p.out.Bytes())
	sinks.Stderr.Write(p.err.Bytes())
	return exit, err
}

// wait waits for the end of the process, and ends it with ctx.
func (p *fakeProcess) wait(ctx context.Context) (supervisor.Exit, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		_ = p.cmd.Process.Kill()
		<-p.done
		return supervisor.Exit{Cause: supervisor.Cancelled, Code: -1}, nil
	}
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return supervisor.Exit{Cause: supervisor.Signaled, Signal: "KILL", Code: -1}, nil
	}
	return supervisor.Exit{Cause: supervisor.Exited, Code: p.cmd.ProcessState.ExitCode()}, nil
}

// pipes are a process's stdin and stdout.
type pipes struct {
	io.WriteCloser
	io.Reader
	cmd *exec.Cmd
}

func (p *pipes) Close() error {
	_ = p.WriteCloser.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	return nil
}

func (n *fakeNode) Open(_ context.Context, command string) (io.ReadWriteCloser, error) {
	cmd := exec.Command("sh", "-c", command)
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	return &pipes{in, out, cmd}, errors.Join(inErr, outErr, cmd.Start())
}

// newCall returns a call of a function.
func newCall(ctx context.Context, id, function, arg string) *Call {
	return &Call{
		Attempt:  attempt.Attempt{ID: id + "-a1", From: output.Source{Label: id}, Context: ctx, Share: &output.Share{}, Started: func() {}},
		Function: function, Arg: codec.Body{Head: []byte(arg)}, Place: worker.Place{TaskID: id, Attempt: 1},
	}
}

// Calls share a process, and what one printed and returned is in its outcome. Each kind of failure has its own cause. A
// process that died is replaced, and what it left is removed.
func TestCalls(t *testing.T) {
	n := newFakeNode(t)
	h := newTestHost(t, n, 1, time.Minute)
	call := func(function, arg string) attempt.Outcome { return h.Call(newCall(t.Context(), "t1", function, arg)) }
	pid := func() string {
		o := call("pid", "")
		if o.Failure != nil || o.ExitCode != 0 || o.Gone != nil {
			t.Errorf("%+v, %+v", o, o.Failure)
		}
		return string(o.Value.Head)
	}
	first := pid()
	if o := call("print", "hello"); o.Failure != nil || string(o.Stdout.Head) != "hello" || o.Elapsed <= 0 {
		t.Errorf("%+v, %+v", o, o.Failure)
	}
	for function, want := range map[string]struct {
		cause attempt.Cause
		says  string
	}{
		"fail": {attempt.Function, "it failed"}, "panic": {attempt.Panic, "at the function"}, "none": {attempt.NeverStarted, PackageLevelHint},
	} {
		o := call(function, "")
		if f := o.Failure; f == nil || f.Cause != want.cause || !strings.Contains(f.Err.Error(), want.says) || o.ExitCode != -1 || (f.Stack != "") != (function == "panic") {
			t.Errorf("%s: %+v", function, f)
		}
	}
	if o := call("none", ""); !errors.Is(o.Failure.Err, driver.ErrUnknownFunction) {
		t.Errorf("%v", o.Failure.Err)
	}
	if again := pid(); again != first {
		t.Errorf("process %s is followed by %s", first, again)
	}
	if f := call("exit", "").Failure; f == nil || f.Cause != attempt.WorkerLost || f.Tail != "last words" || !strings.Contains(f.Err.Error(), "exited with code 3") {
		t.Errorf("exit: %+v", f)
	}
	second := pid()
	if f := call("kill", "").Failure; f == nil || f.Cause != attempt.WorkerLost || f.Signal != "KILL" {
		t.Errorf("kill: %+v", f)
	}
	if third := pid(); second == first || third == second {
		t.Errorf("processes %s, %s, %s", first, second, third)
	}
	name, _, _ := worker.SelfDigest()
	if want := []Worker{{"worker-1", name, 1}, {"worker-2", name, 2}, {"worker-3", name, 3}}; !slices.Equal(n.workers(), want) {
		t.Errorf("%+v are kept", n.workers())
	}
	if left := h.left.all(); len(left) > 0 || exists(filepath.Join(n.root, "worker-1")) || exists(filepath.Join(n.root, "worker-2")) {
		t.Errorf("%v are left", left)
	}
}

// A call whose function ignores its context ends after the grace. Its process gets no further calls, other calls in it
// go on, and it ends with the last of them.
func TestCallThatIgnoresItsContext(t *testing.T) {
	n := newFakeNode(t)
	h := newTestHost(t, n, 1, 50*time.Millisecond)
	bad, good := filepath.Join(n.root, "bad"), filepath.Join(n.root, "good")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	outcomes := map[string]chan attempt.Outcome{bad: make(chan attempt.Outcome, 1), good: make(chan attempt.Outcome, 1)}
	for file, ctx := range map[string]context.Context{bad: ctx, good: t.Context()} {
		go func() { outcomes[file] <- h.Call(newCall(ctx, filepath.Base(file), "stubborn", file)) }()
		until(t, "the start of "+file, func() bool { return exists(file + ".runs") })
	}
	cancel()
	o := <-outcomes[bad]
	if f := o.Failure; f == nil || f.Cause != attempt.Cancelled || !errors.Is(f.Err, context.Canceled) || !strings.Contains(f.Err.Error(), "ignored for 50ms") || o.Gone == nil {
		t.Fatalf("%+v, %+v", o, f)
	}
	fresh := h.Call(newCall(t.Context(), "fresh", "pid", ""))
	select {
	case <-o.Gone:
		t.Error("the process has ended, with a call in it")
	default:
	}
	if err := os.WriteFile(good, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := <-outcomes[good]
	if old.Failure != nil || fresh.Failure != nil || string(old.Value.Head) == string(fresh.Value.Head) {
		t.Errorf("%+v, %+v", old, fresh)
	}
	<-o.Gone
	if again := h.Call(newCall(t.Context(), "again", "pid", "")); string(again.Value.Head) != string(fresh.Value.Head) {
		t.Errorf("process %s is followed by %s", fresh.Value.Head, again.Value.Head)
	}
}

// A call fails at its Timeout, even if its function ignores its context.
func TestCallTimeout(t *testing.T) {
	n := newFakeNode(t)
	h := newTestHost(t, n, 1, 50*time.Millisecond)
	c := newCall(t.Context(), "t1", "stubborn", filepath.Join(n.root, "never"))
	c.Timeout = 50 * time.Millisecond
	o := h.Call(c)
	if f := o.Failure; f == nil || f.Cause != attempt.Timeout || !strings.Contains(f.Err.Error(), "ignored for 50ms") {
		t.Fatalf("%+v", f)
	}
	if f := h.Call(newCall(t.Context(), "t2", "pid", "")).Failure; f != nil {
		t.Errorf("the next call: %+v", f)
	}
	<-o.Gone
}

// A worker that is killed whenever it starts fails the call, and a host that is closed starts none.
func TestWorkerThatNeverServes(t *testing.T) {
	n := newFakeNode(t)
	h := newTestHost(t, n, 1, time.Minute)
	starts := 0
	n.begin = func() { starts++ }
	t.Setenv("CALLS_TEST_DIE", "1")
	if f := h.Call(newCall(t.Context(), "t1", "pid", "")).Failure; f == nil || f.Cause != attempt.WorkerLost || starts != startAttempts || !strings.Contains(f.Err.Error(), "it never served") {
		t.Errorf("after %d starts: %+v", starts, f)
	}
	h.Close()
	if f := h.Call(newCall(t.Context(), "t1", "pid", "")).Failure; f == nil || f.Cause != attempt.NeverStarted || !errors.Is(f.Err, driver.ErrClosed) || starts != startAttempts {
		t.Errorf("when it is closed, after %d starts: %+v", starts, f)
	}
}

// The next program collects a call of an earlier program, with its output, if it claims the call, and drops the call
// otherwise. Then the worker ends.
func TestAdopt(t *testing.T) {
	n := newFakeNode(t)
	earlier := newTestHost(t, n, 1, time.Minute)
	wanted, unwanted := filepath.Join(n.root, "wanted"), filepath.Join(n.root, "unwanted")
	for _, file := range []string{wanted, unwanted} {
		c := newCall(t.Context(), filepath.Base(file), "stubborn", file)
		c.Hold = true
		go earlier.Call(c) // the earlier host never gets the outcome
		until(t, "the start of "+file, func() bool { return exists(file + ".runs") })
	}
	later := newTestHost(t, n, 2, time.Minute)
	since := time.Now()
	outcome := make(chan attempt.Outcome, 1)
	later.Adopt(n.workers()[0], func(held worker.HeldCall) *Claim {
		if held.Place.TaskID != "wanted" || held.Finished {
			return nil
		}
		return &Claim{Call: newCall(t.Context(), "wanted", held.Function, ""), Since: since, Done: func(o attempt.Outcome) { outcome <- o }}
	})
	if err := errors.Join(os.WriteFile(wanted, nil, 0o600), os.WriteFile(unwanted, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	o := <-outcome
	adopted := n.process("worker-1")
	pid := strconv.Itoa(adopted.cmd.Process.Pid)
	if o.Failure != nil || o.ExitCode != 0 || string(o.Value.Head) != pid || o.Release == nil || o.Elapsed > time.Since(since) {
		t.Errorf("%+v, %+v", o, o.Failure)
	}
	o.Release()
	<-adopted.done
	if fresh := later.Call(newCall(t.Context(), "fresh", "pid", "")); fresh.Failure != nil || string(fresh.Value.Head) == pid || n.workers()[1].Name != "worker-2" {
		t.Errorf("%+v, %+v, %+v", fresh, fresh.Failure, n.workers())
	}
}
