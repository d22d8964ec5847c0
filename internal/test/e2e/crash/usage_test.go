//go:build unix

package crash

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/usagetest"
)

func init() {
	victimWork["some and some"] = func(pool *gputrain.Compute, _ victim) {
		var tasks []gputrain.Task
		for i := range 8 {
			switch {
			case i < 3:
				tasks = append(tasks, gputrain.Script(fmt.Sprintf("exit $((%d == 2))", i)))
			default:
				tasks = append(tasks, gateTask(fmt.Sprint("task ", i)))
			}
		}
		sayErrors(pool.Gather(tasks...))
	}
}

// The usage program recovery attaches to, or reaps, a killed program's pool in the user's own state directory.
func TestUsageRecovery(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: programs are killed")
	}
	program := usagetest.Build(t, "recovery")
	e2etest.NeedDocker(t)
	desert := func(t *testing.T) (victim, string) {
		t.Helper()
		v := shared(t, "some and some", 2, 1)
		v.State, v.Name = filepath.Join(program.State, "gputrain"), "digits"
		r := v.start(t)
		for _, end := range []string{"task done", "task done", "task failed"} { // in any order
			r.Await(end)
		}
		e2etest.Until(t, "the tasks that wait", func() bool {
			found, _ := filepath.Glob(filepath.Join(v.Shared, "task ?"))
			return len(found) == 2
		})
		r.Kill()
		return v, poolID(t, v.State)
	}
	t.Run("attach", func(t *testing.T) {
		v, id := desert(t)
		v.goOn(t)
		out, errOut, err := program.Run(t, nil)
		if err != nil || errOut != "" {
			t.Errorf("%v\n%s%s", err, out, errOut)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != 8 {
			t.Errorf("it prints\n%s", out)
		}
		for i, line := range lines {
			want := fmt.Sprintf(`^%d 0 <nil>$`, i)
			if i == 2 {
				want = `^2 1 task 2 on node \d: exit code 1$`
			}
			if !regexp.MustCompile(want).MatchString(line) {
				t.Errorf("job %d is %q", i, line)
			}
		}
		e2etest.WantNothingOf(t, id)
		wantNoPools(t, v.State)
	})
	t.Run("reap", func(t *testing.T) {
		v, id := desert(t)
		out, errOut, err := program.Run(t, nil, "reap")
		if err != nil || errOut != "" || !regexp.MustCompile(`^[1-9]\d* resources ended\n$`).MatchString(out) {
			t.Errorf("%v\n%s%s", err, out, errOut)
		}
		e2etest.WantNothingOf(t, id)
		wantNoPools(t, v.State)
	})
}
