//go:build unix

package gputrain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
)

// A speech is what a function prints, and what it does then.
type speech struct {
	Out, Err string
	Times    int
	Then     string
	Gate     string // a file that it waits for before it ends
}

var (
	speak = gputrain.Func("output/speak", func(ctx context.Context, in speech) (int, error) {
		for range max(in.Times, 1) {
			fmt.Print(in.Out)
			fmt.Fprint(os.Stderr, in.Err)
		}
		if in.Gate != "" {
			for !exists(in.Gate) && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
		}
		switch in.Then {
		case "every way":
			log.SetFlags(0)
			log.Print("logged")
			println("builtin")
			cmd := exec.Command("sh", "-c", "echo child; echo reopened >/dev/stderr; echo again >/dev/stdout")
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			return 0, cmd.Run()
		case "fail":
			return 0, errors.New("it failed")
		case "exit":
			os.Exit(3)
		case "crash":
			for range 2000 { // with so many, the trace is larger than what a pipe holds
				go func() { select {} }()
			}
			go func() { panic("all is lost") }()
			select {}
		}
		return len(in.Out), nil
	})
	sing = gputrain.GeneratorFunc("output/sing", func(_ context.Context, n int, yield func(int) bool) error {
		for i := 0; i < n && yield(i); i++ {
			fmt.Println("verse", i)
		}
		return nil
	})
)

// A lockedBuffer can be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// shown is what a pool shows.
type shown struct{ out, err lockedBuffer }

func (s *shown) option() gputrain.Option { return gputrain.WithOutput(&s.out, &s.err) }

// What a function prints, in whatever way, is shown under its call's name, is in its
// Result, and all of it is there when the call returns: a pool that is closed at once
// loses none.
func TestFunctionOutput(t *testing.T) {
	var told shown
	pool := open(t, gputrain.Spec{}, told.option())
	for i, want := range []string{"first", "", "third"} {
		call := speak.Call(speech{Out: want + "\n", Err: "no end"})
		call.Name = fmt.Sprint("call ", i)
		r, err := pool.Run(call)
		if err != nil || string(r.Stdout) != want+"\n" || string(r.Stderr) != "no end" || r.StdoutBytes != int64(len(want)+1) || r.StderrBytes != 6 || r.Truncated {
			t.Errorf("call %d: stdout %q (%d), stderr %q (%d), %v", i, r.Stdout, r.StdoutBytes, r.Stderr, r.StderrBytes, err)
		}
	}
	r, err := pool.Run(speak.Call(speech{Then: "every way"}))
	if err != nil || string(r.Stdout) != "child\nagain\n" || string(r.Stderr) != "logged\nbuiltin\nreopened\n" {
		t.Errorf("every way: stdout %q, stderr %q, %v", r.Stdout, r.Stderr, err)
	}
	if r, err := pool.Run(double.Call(1)); err != nil || len(r.Stdout)+len(r.Stderr) > 0 {
		t.Errorf("a function that prints nothing has printed %q, %q, %v", r.Stdout, r.Stderr, err)
	}
	if r, err := pool.Run(speak.Call(speech{Out: "so far", Then: "fail"})); err == nil || string(r.Stdout) != "so far" {
		t.Errorf("a failure: stdout %q, %v", r.Stdout, err)
	}
	for range sing.With(gputrain.Task{Name: "song"}).Run(pool, 2) {
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	wantOut := "[call 0] first\n[call 1] \n[call 2] third\n[task 0] child\n[task 0] again\n[task 0] so far\n[song] verse 0\n[song] verse 1\n"
	wantErr := "[call 0] no end\n[call 1] no end\n[call 2] no end\n[task 0] logged\n[task 0] builtin\n[task 0] reopened\n"
	if out, err := told.out.String(), told.err.String(); out != wantOut || err != wantErr {
		t.Errorf("shown:\n%s---\n%s", out, err)
	}
}

// Of calls that run at the same time in one process it cannot be told which has printed
// what: their lines have the node's name. None is lost.
func TestFunctionOutputOfCallsAtOnce(t *testing.T) {
	var told shown
	pool := open(t, gputrain.Spec{Concurrency: 2}, told.option())
	gate := t.TempDir() + "/gate"
	long := pool.Start(speak.Call(speech{Out: "alone\n", Gate: gate}))
	until(t, "the first line", func() bool { return strings.Contains(told.out.String(), "[task 0] alone\n") })
	line, err := io.ReadAll(io.LimitReader(long.Stdout(), 6))
	if err != nil || string(line) != "alone\n" {
		t.Errorf("the job's output is %q, %v", line, err)
	}
	short, err := pool.Run(speak.Call(speech{Out: "together\n", Times: 3}))
	if err != nil || len(short.Stdout) > 0 {
		t.Errorf("the second call: %q, %v", short.Stdout, err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := long.Wait(); err != nil || len(r.Stdout) > 0 {
		t.Errorf("the first call: %q, %v", r.Stdout, err)
	}
	if r, err := pool.Run(speak.Call(speech{Out: "alone again"})); err != nil || string(r.Stdout) != "alone again" {
		t.Errorf("afterwards: %q, %v", r.Stdout, err)
	}
	if want := "[task 0] alone\n" + strings.Repeat("[node 0] together\n", 3) + "[task 0] alone again\n"; told.out.String() != want {
		t.Errorf("shown:\n%s", told.out.String())
	}
}

// A process that dies leaves what it printed last: in the error, in the Result, and
// before the reader's eyes. A crash that says much does not hang for want of a reader.
func TestFunctionOutputOfADeadProcess(t *testing.T) {
	var told shown
	pool := open(t, gputrain.Spec{Image: gputrain.Image{Env: map[string]string{"GOTRACEBACK": "all"}}}, told.option())
	for then, says := range map[string]string{"exit": "last words", "crash": "panic: all is lost"} {
		r, err := pool.Run(speak.Call(speech{Out: "so far\n", Err: "last words\n", Then: then}))
		var te *gputrain.TaskError
		if !errors.As(err, &te) || te.Cause != gputrain.CauseWorkerLost || te.Tail == "" || string(r.Stdout) != "so far\n" || !strings.Contains(string(r.Stderr), says) {
			t.Errorf("%s: stdout %q, stderr %.300q, %v", then, r.Stdout, r.Stderr, err)
		}
		if !strings.Contains(told.err.String(), "[task 0] "+says) {
			t.Errorf("%s: shown: %.300s", then, told.err.String())
		}
		if then == "exit" && te.Tail != "last words" {
			t.Errorf("the tail is %q", te.Tail)
		}
		if n := strings.Count(string(r.Stderr), "\ngoroutine "); then == "crash" && n < 2000 {
			t.Errorf("the trace has %d goroutines", n)
		}
	}
}

// What is printed without end takes no memory here, and holds nothing up.
func TestFunctionOutputWithoutEnd(t *testing.T) {
	pool := open(t, gputrain.Spec{}, gputrain.WithLimits(gputrain.Limits{OutputBytes: 2 << 20}))
	block := strings.Repeat("0123456789abcde\n", 1<<12)
	const times = 1 << 10 // 64 MiB
	r, err := pool.Run(speak.Call(speech{Out: block, Times: times, Err: "x"}))
	if err != nil || r.StdoutBytes != times*int64(len(block)) || r.StderrBytes != times || !r.Truncated || len(r.Stdout) != gputrain.DefaultKeptOutputBytes || !bytes.HasPrefix(r.Stdout, []byte(block)) {
		t.Fatalf("%d bytes of stdout, %d of stderr, %d kept, truncated=%v, %v", r.StdoutBytes, r.StderrBytes, len(r.Stdout), r.Truncated, err)
	}
	if info, err := os.Stat(r.StdoutFile); err != nil || info.Size() != 2<<20 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if r, err := pool.Run(speak.Call(speech{Out: "more"})); err != nil || string(r.Stdout) != "more" || r.Truncated {
		t.Errorf("afterwards: %q, truncated=%v, %v", r.Stdout, r.Truncated, err)
	}
}

// Secrets that the pool knows are taken out of what functions print, as of what
// commands do.
func TestFunctionOutputWithoutSecrets(t *testing.T) {
	var told shown
	pool := open(t, gputrain.Spec{}, told.option())
	secret := gputrain.Cmd("true")
	secret.Secrets = map[string]gputrain.Secret{"TOKEN": "hunter2hunter2"}
	if _, err := pool.Run(secret); err != nil {
		t.Fatal(err)
	}
	_, err := pool.Run(speak.Call(speech{Out: "it is hunter2hunter2\n", Err: "\x1b[31mhunter2hunter2\n", Then: "exit"}))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("err = %v", err)
	}
	if all := told.out.String() + told.err.String(); strings.Contains(all, "hunter2") || !strings.Contains(all, "[task 0] it is [redacted]\n") {
		t.Errorf("shown:\n%s", all)
	}
}

// A reader that does not read holds up the calls that print, and no others.
func TestFunctionOutputWithAStuckReader(t *testing.T) {
	stuck, free := io.Pipe()
	pool := open(t, gputrain.Spec{Concurrency: 2}, gputrain.WithOutput(free, nil))
	job := pool.Start(speak.Call(speech{Out: strings.Repeat("x", 1<<10) + "\n", Times: 1 << 10}))
	if out, err := double.Run(pool, 2); out != 4 || err != nil {
		t.Errorf("another call: %d, %v", out, err)
	}
	select {
	case <-job.Done():
		t.Error("the call is over before what it printed was shown")
	default:
	}
	go func() { _, _ = io.Copy(io.Discard, stuck) }() // ends with the pipe
	if _, err := job.Wait(); err != nil {
		t.Error(err)
	}
	free.Close()
}

// enumerate prints numbered lines, so that one that is missing, or comes twice, is seen.
var enumerate = gputrain.Func("output/enumerate", func(_ context.Context, n int) (int, error) {
	for i := range n {
		fmt.Println("line", i)
		fmt.Fprintln(os.Stderr, "error", i)
	}
	return n, nil
})

func TestFunctionOutputOverALinkThatIsCut(t *testing.T) {
	h := newHost(t)
	var told shown
	pool := openHosts(t, gputrain.Spec{}, []gputrain.Option{told.option()}, h)
	const n = 200_000
	if _, err := double.Run(pool, 1); err != nil { // which ships the program
		t.Fatal(err)
	}
	dials := h.link.Dials()
	h.link.CutAfter(300<<10, 100<<10, 200<<10, 300<<10, 400<<10)
	r, err := pool.Run(enumerate.Call(n))
	if err != nil || r.Attempts != 1 {
		t.Fatal(r.Attempts, err)
	}
	if more := h.link.Dials() - dials; more < 5 {
		t.Errorf("%d connections after cuts", more)
	}
	for name, got := range map[string]string{"line": readText(t, r.StdoutFile), "error": readText(t, r.StderrFile)} {
		var want strings.Builder
		for i := range n {
			fmt.Fprintln(&want, name, i)
		}
		if got != want.String() {
			t.Errorf("%d bytes of %q, and %d were written", len(got), name, want.Len())
		}
	}
	if got := strings.Count(told.out.String(), "[task 0] line ") + strings.Count(told.err.String(), "[task 0] error "); got != 2*n {
		t.Errorf("%d lines are shown, of %d", got, 2*n)
	}
}
