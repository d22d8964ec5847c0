package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// The node's secrets are in every task that starts after they are set, also over a later session, and a task's own
// variables override them.
func TestBaseSecrets(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		n := start(t, connect(t, srv, ""), config(t, shell))
		n.SetBase(map[string]string{"A": "base", "B": "base"}, nil)
		n.SetSecrets(map[string]string{"B": everyByte, "C": "secret", "D": "secret"})
		show := Spec{Args: []string{"env", "-0"}, Env: map[string]string{"C": "own"}, Secrets: map[string]string{"D": "own"}}
		for range 2 {
			r := run(t, n, show)
			for _, want := range []string{"A=base", "B=" + everyByte, "C=own", "D=own"} {
				if !strings.Contains("\x00"+r.out, "\x00"+want+"\x00") {
					t.Errorf("%v: the environment lacks %q: %q", r.err, want, r.out)
				}
			}
			n.mu.Lock()
			n.control.s.Close() // another session follows
			n.mu.Unlock()
		}
		n.SetSecrets(map[string]string{"UID": "secret"})
		if r := run(t, n, show); !errors.Is(r.err, ErrNotStarted) || !strings.Contains(r.err.Error(), `secret "UID"`) || strings.Contains(r.err.Error(), "=secret") {
			t.Errorf("a name that a shell uses itself: %v", r.err)
		}
	})
}
