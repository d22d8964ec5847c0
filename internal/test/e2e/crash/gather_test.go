//go:build unix

package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
)

var slowly = gputrain.Func("attach/slowly", func(ctx context.Context, i int) (string, error) {
	time.Sleep(100 * time.Millisecond)
	return fmt.Sprintf("call %d", i), nil
})

func init() {
	victimWork["gather 100"] = func(pool *gputrain.Compute, _ victim) {
		var tasks []gputrain.Task
		for i := range 100 {
			if i%4 == 3 {
				tasks = append(tasks, slowly.Call(i))
				continue
			}
			tasks = append(tasks, gputrain.Script(fmt.Sprintf(`echo ran >>/shared/%d; echo "begin %d $COLOR"; sleep 0.2; echo end %d; exit $((%d %% 10 == 5))`, i, i, i, i)))
		}
		sayErrors(pool.Gather(tasks...))
	}
}

// Of a Gather of 100 tasks some have ended, some run and some wait when the program is killed. A
// program that attaches gets them all, and none ran twice.
func attachRecoversAGather(t *testing.T) {
	v := shared(t, "gather 100", 2, 2)
	v.Spec.Image.Env = map[string]string{"COLOR": "blue"}
	r := v.start(t)
	for range 30 {
		r.Await("task done")
	}
	r.Kill()
	pool := v.attach(t)
	jobs := pool.Jobs()
	if len(jobs) != 100 {
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
		if b, _ := os.ReadFile(filepath.Join(v.Shared, fmt.Sprint(i))); string(b) != "ran\n" {
			t.Errorf("task %d ran %d times", i, strings.Count(string(b), "\n"))
		}
	}
}

// wantNoPools checks that a state directory has no pools.
func wantNoPools(t *testing.T, state string) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(state, "pools", "*")); left != nil {
		t.Errorf("the state directory still has the pools %v", left)
	}
}
