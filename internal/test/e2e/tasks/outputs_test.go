//go:build unix

package tasks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

func names(files []gputrain.OutputFile) (names []string) {
	for _, f := range files {
		names = append(names, f.Name)
	}
	return names
}

// Files that an older attempt or an earlier task left in the folders of Outputs are not reported as outputs of this
// attempt.
func TestOutputsAreOfTheirAttempt(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	first := gputrain.Script("mkdir -p out; echo earlier >out/earlier; echo earlier >out/both")
	first.Outputs = []string{"out/*"}
	r, err := pool.Run(first)
	if got := names(r.Outputs); err != nil || !slices.Equal(got, []string{"out/both", "out/earlier"}) {
		t.Fatalf("the first task left %q, %v", got, err)
	}
	second := gputrain.Script(`echo "$GPUTRAIN_ATTEMPT" >out/attempt-$GPUTRAIN_ATTEMPT; cp -p out/attempt-$GPUTRAIN_ATTEMPT out/copy
echo "$GPUTRAIN_ATTEMPT" >out/both; [ "$GPUTRAIN_ATTEMPT" = 2 ]`)
	second.Outputs, second.Retries = []string{"out/*"}, 1
	r, err = pool.Run(second)
	if got := names(r.Outputs); err != nil || !slices.Equal(got, []string{"out/attempt-2", "out/both", "out/copy"}) {
		t.Fatalf("the second task left %q, %v", got, err)
	}
	for _, f := range r.Outputs {
		if b, err := os.ReadFile(filepath.Join(r.OutputDir, f.Name)); string(b) != "2\n" || err != nil {
			t.Errorf("%s has %q, %v", f.Name, b, err)
		}
	}
}

// Every attempt has its own directory, which is empty at its start and exists until its outputs are collected.
func TestScratchOfEveryAttempt(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Concurrency: 3})
	var tasks []gputrain.Task
	for range 32 {
		task := gputrain.Script(`cd "$GPUTRAIN_SCRATCH" && [ -z "$(ls -A)" ] || exit 9
mkdir out && echo "$GPUTRAIN_TASK_INDEX $GPUTRAIN_ATTEMPT" >out/result && pwd; [ "$GPUTRAIN_ATTEMPT" = 2 ] || [ $((GPUTRAIN_TASK_INDEX % 8)) != 0 ]`)
		task.Outputs, task.Retries = []string{"out/*"}, 1
		tasks = append(tasks, task)
	}
	results, err := pool.Gather(tasks...)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, r := range results {
		dir := strings.TrimSpace(string(r.Stdout))
		if seen[dir] {
			t.Errorf("%s was used twice", dir)
		}
		seen[dir] = true
		want := "0 1\n"
		if i%8 == 0 {
			want = "0 2\n"
		}
		want = strings.Replace(want, "0", strconv.Itoa(i), 1)
		b, err := os.ReadFile(filepath.Join(r.OutputDir, "out", "result"))
		if string(b) != want || err != nil || !slices.Equal(names(r.Outputs), []string{"out/result"}) {
			t.Errorf("task %d left %q with %q, %v", i, names(r.Outputs), b, err)
		}
	}
	for dir := range seen {
		if !e2etest.Settles(func() bool { _, err := os.Stat(dir); return os.IsNotExist(err) }) {
			t.Errorf("%s still exists", dir)
			break
		}
	}
}

var writeBoth = gputrain.Func("write-both", func(ctx context.Context, text string) (string, error) {
	n := gputrain.ThisNode(ctx)
	if err := os.WriteFile(filepath.Join(n.Scratch, "mine.txt"), []byte(text), 0o600); err != nil {
		return "", err
	}
	return n.Scratch, os.WriteFile(text+".txt", []byte(text), 0o600)
})

// Every call of a function has its own directory too.
func TestOutputsOfCalls(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	for _, text := range []string{"a", "b"} {
		call := writeBoth.Call(text)
		call.Outputs = []string{"*.txt"}
		r, err := pool.Run(call)
		if got := names(r.Outputs); err != nil || !slices.Equal(got, []string{text + ".txt", "mine.txt"}) {
			t.Errorf("%s left %q, %v", text, got, err)
		}
		b, err := os.ReadFile(filepath.Join(r.OutputDir, "mine.txt"))
		if string(b) != text || err != nil {
			t.Errorf("%s wrote %q, %v", text, b, err)
		}
		dir, err := writeBoth.Value(r)
		if err != nil || !e2etest.Settles(func() bool { left, _ := filepath.Glob(dir + "*"); return len(left) == 0 }) {
			t.Errorf("%s still exists, %v", dir, err)
		}
	}
}

// TestOutputsThatMatchNothing checks that a missing output fails the task, and that the error names the searched
// folders and their content.
func TestOutputsThatMatchNothing(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithResultsDir(t.TempDir()))
	run(t, pool, `mkdir -p out; echo old >out/old.json`)

	task := gputrain.Script(`echo new >out/model.bin; echo mine >"$GPUTRAIN_SCRATCH/report.txt"; echo "attempt $GPUTRAIN_ATTEMPT"`)
	task.Outputs, task.Retries = []string{"out/*.bin", "out/*.safetensors", "report.*", "out/*.json"}, 1
	r, err := pool.Run(task)
	var failed *gputrain.TaskError
	if !errors.As(err, &failed) || failed.Cause != gputrain.CauseOutputs || r.Attempts != 2 || string(r.Stdout) != "attempt 2\n" {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, want := range []string{`no file matches the patterns "out/*.safetensors", "out/*.json": `, `/out" has "model.bin", "old.json"`, `" has "report.txt"`,
		`"old.json" there is older than the attempt`, "gputrain.Optional"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %s: %v", want, err)
		}
	}
	if got := names(r.Outputs); !slices.Equal(got, []string{"out/model.bin", "report.txt"}) {
		t.Errorf("the other outputs are %q", got)
	}
	if b, err := os.ReadFile(filepath.Join(r.OutputDir, "out", "model.bin")); string(b) != "new\n" {
		t.Errorf("what came is %q, %v", b, err)
	}

	task.Outputs, task.Retries = []string{"*.pt"}, 0
	r, err = pool.Run(task)
	if !errors.As(err, &failed) || failed.Cause != gputrain.CauseOutputs || r.OutputDir != "" || r.Outputs != nil {
		t.Errorf("with no output at all: %q, %v, %v", r.OutputDir, r.Outputs, err)
	}
	task.Dir = "out"
	task.Script = "true"
	if _, err = pool.Run(task); err == nil || !strings.Contains(err.Error(), `no file matches the pattern "*.pt": `) || !strings.Contains(err.Error(), `/out" has "model.bin", "old.json"; "`) || !strings.Contains(err.Error(), `" is empty; if there`) {
		t.Errorf("in another folder: %v", err)
	}
	results, err := pool.Gather(task, gputrain.Cmd("echo", "fine"))
	if err == nil || results[1].Err != nil || string(results[1].Stdout) != "fine\n" {
		t.Errorf("beside another task: %v, %v", results, err)
	}
}

func TestOutputsThatMatchNothingOfCalls(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithResultsDir(t.TempDir()))
	call := writeBoth.Call("some")
	call.Outputs = []string{"mine.txt", "model.pt"}
	r, err := pool.Run(call)
	var failed *gputrain.TaskError
	if !errors.As(err, &failed) || failed.Cause != gputrain.CauseOutputs || !strings.Contains(err.Error(), `"model.pt"`) || !strings.Contains(err.Error(), `"mine.txt"`) {
		t.Errorf("%v", err)
	}
	if got := names(r.Outputs); !slices.Equal(got, []string{"mine.txt"}) || !e2etest.Exists(filepath.Join(r.OutputDir, "mine.txt")) {
		t.Errorf("the other output is %q in %q", got, r.OutputDir)
	}
}

func TestOptionalOutputs(t *testing.T) {
	results := t.TempDir()
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithResultsDir(results))
	task := gputrain.Script("mkdir -p logs; echo hello >logs/a.txt; echo odd >optional:name")
	task.Outputs = []string{gputrain.Optional("logs/*.txt"), gputrain.Optional("no/such/*"), "./optional:name"}
	r, err := pool.Run(task)
	if got := names(r.Outputs); err != nil || !slices.Equal(got, []string{"logs/a.txt", "optional:name"}) {
		t.Errorf("%q, %v", got, err)
	}
	task.Outputs = []string{"optional:name"} // a pattern that marks an optional output
	r, err = pool.Run(task)
	if err != nil || r.OutputDir != "" || r.Outputs != nil {
		t.Errorf("%q, %v, %v", r.OutputDir, r.Outputs, err)
	}
	if left, err := os.ReadDir(results); len(left) != 1 || err != nil {
		t.Errorf("a task without outputs left a folder: %v, %v", left, err)
	}
	if twice := gputrain.Optional(gputrain.Optional("a")); twice != "optional:a" {
		t.Error(twice)
	}
	task.Outputs = []string{gputrain.Optional("../x")}
	if err := task.Validate(); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), `Outputs[0]: the pattern "../x"`) {
		t.Error(err)
	}
}
