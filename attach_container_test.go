//go:build unix

package gputrain_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/container"
)

const (
	deserterEnv  = "GPUTRAIN_TEST_DESERTER"
	deserterTask = "task ended"
)

// A deserter is a program that opens a pool, has tasks gathered, and is killed.
type deserter struct {
	State, Shared string
	Tasks         int
}

var slowly = gputrain.Func("attach/slowly", func(ctx context.Context, i int) (string, error) {
	time.Sleep(100 * time.Millisecond)
	return fmt.Sprintf("call %d", i), nil
})

// TestDeserter is no test: it is the program that is killed.
func TestDeserter(t *testing.T) {
	text := os.Getenv(deserterEnv)
	if text == "" {
		return
	}
	time.AfterFunc(2*time.Minute, func() { os.Exit(3) }) // whatever becomes of the parent
	var d deserter
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	pool, err := gputrain.Open(t.Context(), container.Config{}, gputrain.Spec{
		Nodes: 2, Concurrency: 2, Lease: time.Minute, Mounts: []gputrain.Mount{{Source: d.Shared, Target: "/shared"}},
		Image: gputrain.Image{Env: map[string]string{"COLOR": "blue"}},
	}, gputrain.WithName("deserted"), gputrain.WithStateDir(d.State), gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventTask && e.State == "done" {
			fmt.Println(deserterTask)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var tasks []gputrain.Task
	for i := range d.Tasks {
		if i%4 == 3 {
			tasks = append(tasks, slowly.Call(i))
			continue
		}
		tasks = append(tasks, gputrain.Script(fmt.Sprintf(`echo ran >>/shared/%d; echo "begin %d $COLOR"; sleep 0.2; echo end %d; exit $((%d %% 10 == 5))`, i, i, i, i)))
	}
	pool.Gather(tasks...)
	t.Error("it was not killed")
}

// desert runs a deserter until so many of its tasks have ended, and kills it.
func desert(t *testing.T, d deserter, after int) {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestDeserter$", "-test.timeout=3m")
	cmd.Env = append(os.Environ(), deserterEnv+"="+string(text))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; n < after && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), deserterTask) {
			n++
		} else {
			t.Log(lines.Text())
		}
	}
	cmd.Process.Kill()
	io.Copy(io.Discard, out)
	cmd.Wait()
}

// Of a gather of 100 tasks some have ended, some run and some wait when the program is
// killed: another one has them all, and none ran twice.
func TestAttachRecoversAGather(t *testing.T) {
	needDocker(t)
	d := deserter{State: t.TempDir(), Shared: t.TempDir(), Tasks: 100}
	desert(t, d, 30)
	state := gputrain.WithStateDir(d.State)
	pool, err := gputrain.Attach(t.Context(), container.Config{}, "deserted", state, gputrain.WithResultsDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	jobs := pool.Jobs()
	if len(jobs) != d.Tasks {
		t.Fatalf("%d jobs", len(jobs))
	}
	for i, job := range jobs {
		r, err := job.Wait()
		if r.Index != i {
			t.Errorf("job %d is of task %d", i, r.Index)
		}
		if i%4 == 3 {
			if got, err := slowly.Value(r); err != nil || got != fmt.Sprintf("call %d", i) {
				t.Errorf("call %d: %q, %v", i, got, err)
			}
			continue
		}
		if want := fmt.Sprintf("begin %d blue\nend %d\n", i, i); string(r.Stdout) != want {
			t.Errorf("task %d wrote %q", i, r.Stdout)
		}
		var te *gputrain.TaskError
		if failed := errors.As(err, &te); failed != (i%10 == 5) || failed && te.ExitCode != 1 {
			t.Errorf("task %d: %v", i, err)
		}
		if b, _ := os.ReadFile(filepath.Join(d.Shared, fmt.Sprint(i))); string(b) != "ran\n" {
			t.Errorf("task %d ran %d times", i, strings.Count(string(b), "\n"))
		}
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	wantNoPools(t, d.State)
}

// wantNoPools checks that nothing is left in a state directory.
func wantNoPools(t *testing.T, state string) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(state, "pools", "*")); left != nil {
		t.Errorf("left in the state directory: %v", left)
	}
}
