package supervisor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// The common environment can change while tasks run and shells wait for the next task. Tasks that start later have the
// new environment.
func TestBaseChanges(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		n := start(t, connect(t, srv, ""), config(t, shell))
		show := Spec{Script: `echo "$STAGE"`}
		mark := filepath.Join(t.TempDir(), "go")
		for _, stage := range []string{"one", "two", "three"} {
			n.SetBase(map[string]string{"STAGE": stage}, nil)
			for range 3 {
				if r := run(t, n, show); r.out != stage+"\n" || r.err != nil {
					t.Errorf("in stage %s a task says %q, %v", stage, r.out, r.err)
				}
			}
		}
		done := make(chan result, 1)
		started := make(chan struct{})
		go func() {
			var r result
			r.Exit, r.err = n.Run(t.Context(), Spec{ID: "slow-" + n.cfg.PoolID, Script: `while [ ! -e '` + mark + `' ]; do sleep 0.05; done; [ "$STAGE" = three ]`},
				Sinks{Started: func() { close(started) }})
			done <- r
		}()
		select {
		case <-started:
		case r := <-done:
			t.Fatalf("it was over before it was seen to start: %+v", r)
		}
		n.SetBase(map[string]string{"STAGE": "four"}, nil)
		if r := run(t, n, show); r.out != "four\n" {
			t.Errorf("beside a task of stage three, one of stage four says %q, %v", r.out, r.err)
		}
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			t.Error(err)
		}
		if r := <-done; r.err != nil || r.Code != 0 {
			t.Errorf("the task of stage three: %+v", r)
		}
		for range 3 { // also where the slow task ran
			if r := run(t, n, show); r.out != "four\n" {
				t.Errorf("in stage four a task says %q, %v", r.out, r.err)
			}
		}
	})
}
