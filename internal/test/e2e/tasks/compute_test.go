package tasks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/local"
)

func TestGatherKeepsTheOrderAndEveryResult(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2, Concurrency: 2})
	var tasks []gputrain.Task
	for i := range 12 {
		tasks = append(tasks, gputrain.Script(fmt.Sprintf("echo %d; exit %d", i, i%3)))
	}
	results, err := pool.Gather(tasks...)
	if len(results) != len(tasks) {
		t.Fatalf("got %d results of %d tasks", len(results), len(tasks))
	}
	failed := 0
	for i, r := range results {
		if r.Index != i || string(r.Stdout) != fmt.Sprintf("%d\n", i) {
			t.Errorf("result %d has index %d and output %q", i, r.Index, r.Stdout)
		}
		if r.ExitCode != i%3 {
			t.Errorf("result %d has exit code %d", i, r.ExitCode)
		}
		if r.Err != nil {
			failed++
		}
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if failed != 8 || !ok || len(joined.Unwrap()) != 8 {
		t.Errorf("8 tasks fail; %d results did, and the error is %v", failed, err)
	}
	var te *gputrain.TaskError
	if !errors.As(err, &te) || te.ExitCode != 1 || te.Index != 1 || te.Cause != gputrain.CauseExit {
		t.Errorf("the first failure is %+v", te)
	}
}

func TestBroadcastAnswersInRankOrder(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 3})
	results, err := pool.Broadcast(gputrain.Script(`echo "$GPUTRAIN_RANK of $GPUTRAIN_NODES"`))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if want := fmt.Sprintf("%d of 3\n", i); string(r.Stdout) != want || r.Node.Rank != i {
			t.Errorf("rank %d printed %q on node %d", i, r.Stdout, r.Node.Rank)
		}
	}
	infos, err := e2etest.Where.Broadcast(pool, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	for i, in := range infos {
		if in.Rank != i || in.Nodes != 3 || in.Pool != pool.ID() || in.MasterAddr == "" || len(in.Addrs) != 3 {
			t.Errorf("rank %d knows %+v", i, in)
		}
	}
}

func TestStreamYieldsAsTasksFinishAndCancelsTheRest(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 3})
	ended := make(chan struct{}, 3)
	dir := t.TempDir()
	slow := gputrain.Script(`echo $$ > "` + dir + `/pid"; sleep 600`)
	first := -1
	for r, err := range pool.Stream(slow, gputrain.Script("exit 3"), slow) {
		first = r.Index
		var te *gputrain.TaskError
		if !errors.As(err, &te) || te.ExitCode != 3 {
			t.Errorf("the quick task ended with %v", err)
		}
		ended <- struct{}{}
		break
	}
	if first != 1 || len(ended) != 1 {
		t.Errorf("task %d finished first", first)
	}
	// The loop returns only once the other tasks have ended: their slots are free.
	if _, err := pool.Broadcast(gputrain.Cmd("true")); err != nil {
		t.Error(err)
	}
}

func TestStreamOfAMistakeRunsNothing(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	n := 0
	for r, err := range pool.Stream(gputrain.Cmd("true"), gputrain.Cmd("")) {
		n++
		if r.Index != -1 || !errors.Is(err, gputrain.ErrInvalid) {
			t.Errorf("got %d, %v", r.Index, err)
		}
	}
	if n != 1 {
		t.Errorf("yielded %d times", n)
	}
}

func TestJobRunsInTheBackground(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 1, Concurrency: 2})
	job := pool.Start(gputrain.Script("echo done"))
	other := pool.Start(gputrain.Script("sleep 600"))
	r, err := job.Wait()
	if err != nil || string(r.Stdout) != "done\n" {
		t.Errorf("got %q, %v", r.Stdout, err)
	}
	other.Cancel()
	_, err = other.Wait()
	var te *gputrain.TaskError
	if !errors.As(err, &te) || te.Cause != gputrain.CauseCancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled job ended with %v", err)
	}
	bad := pool.Start(gputrain.Task{})
	if _, err := bad.Wait(); !errors.Is(err, gputrain.ErrInvalid) {
		t.Errorf("an empty task ended with %v", err)
	}
}

func TestFunctionsAreTypedEndToEnd(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2, Concurrency: 2})
	one, err := e2etest.Norm.Run(pool, e2etest.Point{X: 3, Y: 4})
	if err != nil || one != 25 {
		t.Fatalf("got %v, %v", one, err)
	}
	many, err := e2etest.Norm.Gather(pool, e2etest.Point{X: 1, Y: 0}, e2etest.Point{X: 2e6, Y: 0}, e2etest.Point{X: 0, Y: 3})
	if many[0] != 1 || many[1] != 0 || many[2] != 9 {
		t.Errorf("got %v", many)
	}
	if !errors.Is(err, e2etest.ErrTooFar) {
		t.Errorf("the registered error did not arrive: %v", err)
	}
	items := make([]int, 11)
	for i := range items {
		items[i] = i
	}
	shares, err := e2etest.Share.Broadcast(pool, items)
	if err != nil {
		t.Fatal(err)
	}
	if got := append(shares[0], shares[1]...); fmt.Sprint(got) != fmt.Sprint(items) {
		t.Errorf("the shares are %v", shares)
	}
	whole, err := e2etest.Share.Run(pool, items)
	if err != nil || len(whole) != len(items) {
		t.Errorf("a single call's share is %v, %v", whole, err)
	}
}

func TestPanicIsAnErrorWithTheNodesStack(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	_, err := e2etest.Explode.Run(pool, 0)
	var te *gputrain.TaskError
	if !errors.As(err, &te) || te.Cause != gputrain.CausePanic {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(te.Stack, "functions.go") || !strings.Contains(err.Error(), "the reactor") {
		t.Errorf("the error is %v", err)
	}
	if v, err := e2etest.Explode.Run(pool, 7); err != nil || v != 7 {
		t.Errorf("after the panic: %v, %v", v, err)
	}
}

func TestWorkerThatExitsIsReplaced(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	_, err := e2etest.Exit.Run(pool, 3)
	var te *gputrain.TaskError
	if !errors.As(err, &te) || te.Cause != gputrain.CauseWorkerLost {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(te.Tail, "leaving the building") {
		t.Errorf("the tail is %q", te.Tail)
	}
	if got, err := e2etest.Greet.Run(pool, "again"); err != nil || got != "hello, again" {
		t.Errorf("after the exit: %q, %v", got, err)
	}
}

func TestContextOfACallEndsTheFunction(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := e2etest.Hang.Run(pool.WithContext(ctx), struct{}{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	task := e2etest.Hang.Call(struct{}{})
	task.Timeout = 200 * time.Millisecond
	_, err := pool.Run(task)
	if !errors.Is(err, gputrain.ErrTimeout) {
		t.Errorf("got %v", err)
	}
	if got, err := e2etest.Greet.Run(pool, "after"); err != nil || got != "hello, after" {
		t.Errorf("after: %q, %v", got, err)
	}
}

func TestFunctionTasksAndMistakes(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	r, err := pool.Run(e2etest.Greet.Call("task"))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := e2etest.Greet.Value(r); err != nil || v != "hello, task" {
		t.Errorf("got %q, %v", v, err)
	}
	if _, err := e2etest.Norm.Value(r); !errors.Is(err, gputrain.ErrInvalid) {
		t.Errorf("the value of another function: %v", err)
	}
	with := e2etest.Greet.Call("secret")
	with.Secrets = map[string]gputrain.Secret{"TOKEN": "abc"}
	if _, err := pool.Run(with); !errors.Is(err, gputrain.ErrInvalid) {
		t.Errorf("a function with secrets: %v", err)
	}
}

func TestCausesAreToldApart(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	timeout := gputrain.Script("sleep 600")
	timeout.Timeout = 200 * time.Millisecond
	missing := gputrain.Cmd("true")
	missing.Dir = "no/such/dir"
	for name, c := range map[string]struct {
		task  gputrain.Task
		cause gputrain.Cause
		code  int
		is    error
	}{
		"exit":      {gputrain.Script("echo why >&2; exit 7"), gputrain.CauseExit, 7, nil},
		"exit 137":  {gputrain.Script("exit 137"), gputrain.CauseExit, 137, nil},
		"kill":      {gputrain.Script("kill -KILL $$"), gputrain.CauseSignal, -1, nil},
		"timeout":   {timeout, gputrain.CauseTimeout, -1, gputrain.ErrTimeout},
		"dir":       {missing, gputrain.CauseNeverStarted, -1, nil},
		"not found": {gputrain.Cmd("no-such-program"), gputrain.CauseExit, 127, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pool.Run(c.task)
			var te *gputrain.TaskError
			if !errors.As(err, &te) || te.Cause != c.cause || te.ExitCode != c.code {
				t.Fatalf("got %+v", err)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v is not %v", err, c.is)
			}
			if name == "exit" && te.Tail != "why" {
				t.Errorf("the tail is %q", te.Tail)
			}
			if name == "kill" && te.Signal != "KILL" {
				t.Errorf("the signal is %q", te.Signal)
			}
		})
	}
}

func TestRetriesStartATaskAgain(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	task := gputrain.Script(`echo x >> tries; [ "$(wc -l < tries)" -ge 3 ]`)
	task.Retries = 2
	r, err := pool.Run(task)
	if err != nil || r.Attempts != 3 {
		t.Errorf("%d attempts, %v", r.Attempts, err)
	}
	task = gputrain.Script("exit 9")
	task.Retries = 1
	r, err = pool.Run(task)
	var te *gputrain.TaskError
	if !errors.As(err, &te) || te.Attempt != 2 || r.Attempts != 2 {
		t.Errorf("%d attempts, %v", r.Attempts, err)
	}
}

func TestLongOutputIsKeptOnDisk(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	r, err := pool.Run(gputrain.Script(`i=0; while [ $i -lt 40000 ]; do echo "line $i of a stream that is longer than what is kept"; i=$((i+1)); done`))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Stdout) != e2etest.KeptOutputBytes || r.StdoutFile == "" {
		t.Fatalf("kept %d bytes, file %q", len(r.Stdout), r.StdoutFile)
	}
	whole, err := os.ReadFile(r.StdoutFile)
	if err != nil || int64(len(whole)) != r.StdoutBytes || !bytes.HasPrefix(whole, r.Stdout) {
		t.Errorf("the file has %d of %d bytes, %v", len(whole), r.StdoutBytes, err)
	}
	if !bytes.HasSuffix(whole, []byte("line 39999 of a stream that is longer than what is kept\n")) {
		t.Errorf("the file ends with %q", whole[len(whole)-80:])
	}
}

func TestBytesArriveAsTheyAre(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	odd := "it's \"odd\" $HOME `id` \\ \n\t*?[a] \xff\xfe\x01 é"
	c := gputrain.Cmd("printf", "%s", odd)
	r, err := pool.Run(c)
	if err != nil || string(r.Stdout) != odd {
		t.Errorf("argument arrived as %q, %v", r.Stdout, err)
	}
	c = gputrain.Cmd("sh", "-c", `printf %s "$ODD"; cat`)
	c.Env = map[string]string{"ODD": odd}
	c.Stdin = []byte("in\x00put\xff\n")
	r, err = pool.Run(c)
	if err != nil || string(r.Stdout) != odd+"in\x00put\xff\n" {
		t.Errorf("environment and stdin arrived as %q, %v", r.Stdout, err)
	}
	if _, err := pool.Run(gputrain.Cmd("echo", "a\x00b")); !errors.Is(err, gputrain.ErrInvalid) {
		t.Errorf("NUL: %v", err)
	}
}

func TestOutputsComeBackChecked(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	task := gputrain.Script(`mkdir -p out/deep; printf one > out/a.json; printf two > "out/deep/b c.json"; printf no > out/x.txt`)
	task.Outputs = []string{"out/**/*.json"}
	r, err := pool.Run(task)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range r.Outputs {
		b, err := os.ReadFile(filepath.Join(r.OutputDir, filepath.FromSlash(f.Name)))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		if f.SHA256 != hex.EncodeToString(sum[:]) || f.Size != int64(len(b)) {
			t.Errorf("%+v is not %q", f, b)
		}
		got[f.Name] = string(b)
	}
	if len(got) != 2 || got["out/a.json"] != "one" || got["out/deep/b c.json"] != "two" {
		t.Errorf("got %v", got)
	}
}

func TestUploadAndDownload(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	dir := t.TempDir()
	os.MkdirAll(filepath.Join(dir, "tree", "sub"), 0o755)
	os.WriteFile(filepath.Join(dir, "tree", "sub", "f"), []byte("data"), 0o644)
	if err := pool.Upload(filepath.Join(dir, "tree"), "there"); err != nil {
		t.Fatal(err)
	}
	results, err := pool.Broadcast(gputrain.Script(`cat there/sub/f; mkdir -p res; echo $GPUTRAIN_RANK > res/rank`))
	if err != nil || string(results[1].Stdout) != "data" {
		t.Fatalf("%v, %v", results, err)
	}
	if err := pool.Download("res", filepath.Join(dir, "back")); err != nil {
		t.Fatal(err)
	}
	for _, rank := range []string{"0", "1"} {
		b, err := os.ReadFile(filepath.Join(dir, "back", rank, "res", "rank"))
		if err != nil || string(b) != rank+"\n" {
			t.Errorf("rank %s: %q, %v", rank, b, err)
		}
	}
	if err := pool.Download("nowhere", filepath.Join(dir, "back")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if err := pool.Upload(filepath.Join(dir, "missing"), "x"); !errors.Is(err, gputrain.ErrInvalid) {
		t.Errorf("a missing local file: %v", err)
	}
}

func TestSecretsReachTheTaskAndNothingElse(t *testing.T) {
	const secret = "s3cr3t-v4lue-0f-th3-task"
	var mu sync.Mutex
	var printed bytes.Buffer
	write := writerFunc(func(p []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return printed.Write(p) })
	dir := t.TempDir()
	pool, err := gputrain.Open(t.Context(), local.Config{Dir: dir}, gputrain.Spec{}, gputrain.WithOutput(write, write),
		gputrain.WithEvents(func(e gputrain.Event) { fmt.Fprintf(write, "%+v\n", e) }), gputrain.WithResultsDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	task := gputrain.Script(`printf %s "$TOKEN" | wc -c; echo "$TOKEN" >&2; cat /proc/*/cmdline 2>/dev/null | tr '\0' ' ' | grep -c "s3cr3t[-]v4lue"; exit 4`)
	task.Secrets = map[string]gputrain.Secret{"TOKEN": secret}
	r, err := pool.Run(task)
	if err == nil {
		t.Fatal("Run succeeded, although the task exits with 4")
	}
	if want := fmt.Sprintf("%d\n0\n", len(secret)); strings.ReplaceAll(string(r.Stdout), " ", "") != want {
		t.Errorf("the task saw %q; want %q", r.Stdout, want)
	}
	fmt.Fprintf(write, "%v %+v %#v", err, err, task)
	// On the node, only files with the task's own stderr, which printed the secret, may contain it.
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, ".err") || strings.HasSuffix(path, ".status") {
			return nil
		}
		if b, _ := os.ReadFile(path); bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s on the node has the secret", path)
		}
		return nil
	})
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if bytes.Contains(printed.Bytes(), []byte(secret)) {
		t.Errorf("the secret was printed:\n%s", printed.Bytes())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
