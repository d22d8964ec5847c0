//go:build unix

package functions

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
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// A speech is what a function prints, and what it does after that.
type speech struct {
	Out, Err string
	Times    int
	Then     string
	Gate     string // a file that the function waits for before it ends
}

var (
	speak = gputrain.Func("output/speak", func(ctx context.Context, in speech) (int, error) {
		for range max(in.Times, 1) {
			fmt.Print(in.Out)
			fmt.Fprint(os.Stderr, in.Err)
		}
		if in.Gate != "" {
			for !e2etest.Exists(in.Gate) && ctx.Err() == nil {
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
			for range 2000 { // so many goroutines make the trace larger than the buffer of a pipe
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

// However a function prints, its output is shown under its call's name and is in its Result. It is complete when
// the call returns: a pool that is closed at once loses nothing.
func TestFunctionOutput(t *testing.T) {
	var told e2etest.Shown
	pool := e2etest.Open(t, gputrain.Spec{}, told.Option())
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
	if r, err := pool.Run(doubles.Call(1)); err != nil || len(r.Stdout)+len(r.Stderr) > 0 {
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
	if out, err := told.Out.String(), told.Err.String(); out != wantOut || err != wantErr {
		t.Errorf("shown:\n%s---\n%s", out, err)
	}
}

// The output of calls that run at the same time in one process cannot be separated: the lines show the node's name. No
// line is lost.
func TestFunctionOutputOfCallsAtOnce(t *testing.T) {
	var told e2etest.Shown
	pool := e2etest.Open(t, gputrain.Spec{Concurrency: 2}, told.Option())
	gate := t.TempDir() + "/gate"
	long := pool.Start(speak.Call(speech{Out: "alone\n", Gate: gate}))
	e2etest.Until(t, "the first line", func() bool { return strings.Contains(told.Out.String(), "[task 0] alone\n") })
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
	if want := "[task 0] alone\n" + strings.Repeat("[node 0] together\n", 3) + "[task 0] alone again\n"; told.Out.String() != want {
		t.Errorf("shown:\n%s", told.Out.String())
	}
}

// The last output of a process that dies is in the error and in the Result, and is shown to the user. A long crash
// report without a reader does not hang.
func TestFunctionOutputOfADeadProcess(t *testing.T) {
	var told e2etest.Shown
	pool := e2etest.Open(t, gputrain.Spec{Image: gputrain.Image{Env: map[string]string{"GOTRACEBACK": "all"}}}, told.Option())
	for then, says := range map[string]string{"exit": "last words", "crash": "panic: all is lost"} {
		r, err := pool.Run(speak.Call(speech{Out: "so far\n", Err: "last words\n", Then: then}))
		var te *gputrain.TaskError
		if !errors.As(err, &te) || te.Cause != gputrain.CauseWorkerLost || te.Tail == "" || string(r.Stdout) != "so far\n" || !strings.Contains(string(r.Stderr), says) {
			t.Errorf("%s: stdout %q, stderr %.300q, %v", then, r.Stdout, r.Stderr, err)
		}
		if !strings.Contains(told.Err.String(), "[task 0] "+says) {
			t.Errorf("%s: shown: %.300s", then, told.Err.String())
		}
		if then == "exit" && te.Tail != "last words" {
			t.Errorf("the tail is %q", te.Tail)
		}
		if n := strings.Count(string(r.Stderr), "\ngoroutine "); then == "crash" && n < 2000 {
			t.Errorf("the trace has %d goroutines", n)
		}
	}
}

// Endless output does not fill memory here, and does not block later calls.
func TestFunctionOutputWithoutEnd(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithLimits(gputrain.Limits{OutputBytes: 2 << 20}))
	block := strings.Repeat("0123456789abcde\n", 1<<12)
	const times = 1 << 10 // 64 MiB
	r, err := pool.Run(speak.Call(speech{Out: block, Times: times, Err: "x"}))
	if err != nil || r.StdoutBytes != times*int64(len(block)) || r.StderrBytes != times || !r.Truncated || len(r.Stdout) != e2etest.KeptOutputBytes || !bytes.HasPrefix(r.Stdout, []byte(block)) {
		t.Fatalf("%d bytes of stdout, %d of stderr, %d kept, truncated=%v, %v", r.StdoutBytes, r.StderrBytes, len(r.Stdout), r.Truncated, err)
	}
	if info, err := os.Stat(r.StdoutFile); err != nil || info.Size() != 2<<20 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if r, err := pool.Run(speak.Call(speech{Out: "more"})); err != nil || string(r.Stdout) != "more" || r.Truncated {
		t.Errorf("afterwards: %q, truncated=%v, %v", r.Stdout, r.Truncated, err)
	}
}

// Secrets that the pool knows are removed from the output of functions, as from that of commands.
func TestFunctionOutputWithoutSecrets(t *testing.T) {
	var told e2etest.Shown
	pool := e2etest.Open(t, gputrain.Spec{}, told.Option())
	secret := gputrain.Cmd("true")
	secret.Secrets = map[string]gputrain.Secret{"TOKEN": "hunter2hunter2"}
	if _, err := pool.Run(secret); err != nil {
		t.Fatal(err)
	}
	_, err := pool.Run(speak.Call(speech{Out: "it is hunter2hunter2\n", Err: "\x1b[31mhunter2hunter2\n", Then: "exit"}))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("err = %v", err)
	}
	if all := told.Out.String() + told.Err.String(); strings.Contains(all, "hunter2") || !strings.Contains(all, "[task 0] it is [redacted]\n") {
		t.Errorf("shown:\n%s", all)
	}
}

// A reader that does not read blocks the calls that print, and no others. The printing function continues until the
// other call has ended. If it ended first, the other call would be the last one, which waits for the output of both.
func TestFunctionOutputWithAStuckReader(t *testing.T) {
	stuck, free := io.Pipe()
	pool := e2etest.Open(t, gputrain.Spec{Concurrency: 2}, gputrain.WithOutput(free, nil))
	gate := t.TempDir() + "/gate"
	job := pool.Start(speak.Call(speech{Out: strings.Repeat("x", 1<<10) + "\n", Times: 1 << 10, Gate: gate}))
	if out, err := doubles.Run(pool, 2); out != 4 || err != nil {
		t.Errorf("another call: %d, %v", out, err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-job.Done():
		t.Error("the call ended before its output was shown")
	case <-time.After(200 * time.Millisecond): // usually, the function has ended by then
	}
	go func() { _, _ = io.Copy(io.Discard, stuck) }() // ends when the pipe is closed
	if _, err := job.Wait(); err != nil {
		t.Error(err)
	}
	free.Close()
}

// enumerate prints numbered lines, so that missing and duplicate lines are noticed.
var enumerate = gputrain.Func("output/enumerate", func(_ context.Context, n int) (int, error) {
	for i := range n {
		fmt.Println("line", i)
		fmt.Fprintln(os.Stderr, "error", i)
	}
	return n, nil
})

func TestFunctionOutputOverALinkThatIsCut(t *testing.T) {
	h := e2etest.NewHost(t)
	var told e2etest.Shown
	pool := e2etest.OpenHosts(t, gputrain.Spec{}, []gputrain.Option{told.Option()}, h)
	const n = 200_000
	if _, err := doubles.Run(pool, 1); err != nil { // ships the program
		t.Fatal(err)
	}
	dials := h.Link.Dials()
	h.Link.CutAfter(300<<10, 100<<10, 200<<10, 300<<10, 400<<10)
	r, err := pool.Run(enumerate.Call(n))
	if err != nil || r.Attempts != 1 {
		t.Fatal(r.Attempts, err)
	}
	if more := h.Link.Dials() - dials; more < 5 {
		t.Errorf("%d connections after cuts", more)
	}
	for name, got := range map[string]string{"line": e2etest.ReadText(t, r.StdoutFile), "error": e2etest.ReadText(t, r.StderrFile)} {
		var want strings.Builder
		for i := range n {
			fmt.Fprintln(&want, name, i)
		}
		if got != want.String() {
			t.Errorf("got %d bytes of %q, but %d were written", len(got), name, want.Len())
		}
	}
	if got := strings.Count(told.Out.String(), "[task 0] line ") + strings.Count(told.Err.String(), "[task 0] error "); got != 2*n {
		t.Errorf("%d lines are shown, of %d", got, 2*n)
	}
}
