package novita

import (
	"os/exec"
	"testing"

	"github.com/gputrain/gputrain"
)

// The pool's key is put in place by the password, which is not needed again; or, where the
// proxy takes no keys, at each connection.
func TestPasswordIsUsedOnce(t *testing.T) {
	for name, noKeys := range map[string]bool{"keys are taken": false, "no keys are taken": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			f.noKeys = noKeys
			state := t.TempDir()
			pool, err := gputrain.Open(t.Context(), f.config(), rtx4090, gputrain.WithStateDir(state))
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			in, _ := f.instances.Get(nil, pool.Nodes()[0].ID)
			for range 3 {
				in.machine.HangUp()
				if r, err := pool.Run(gputrain.Script("grep -c ^ssh- ~/.ssh/authorized_keys")); err != nil || string(r.Stdout) != "1\n" {
					t.Errorf("%q, %v", r.Stdout, err)
				}
			}
			if n := in.machine.PasswordLogins(); !noKeys && n != 1 || noKeys && n < 2 {
				t.Errorf("the password was used %d times", n)
			}
			for _, place := range []string{state, in.machine.Home} {
				if out, _ := exec.Command("grep", "-rlF", testPassword, place).Output(); len(out) > 0 {
					t.Errorf("the password is in %s", out)
				}
				if out, _ := exec.Command("grep", "-rl", "", place).Output(); len(out) == 0 {
					t.Errorf("there is nothing to search in %s", place)
				}
			}
			if err := pool.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
