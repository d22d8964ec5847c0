package novita

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

// The pool installs its key by the password, and does not use the password again. If the proxy
// accepts no keys, each connection uses it.
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

// Without AllowPasswordAtFirstContact nothing is rented, and no password is sent.
func TestPasswordNeedsLeave(t *testing.T) {
	f := startFake(t)
	cfg := f.config()
	cfg.AllowPasswordAtFirstContact = false
	pool, err := gputrain.Open(t.Context(), cfg, rtx4090)
	if err == nil {
		pool.Close()
	}
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "AllowPasswordAtFirstContact") || len(f.account()) > 0 {
		t.Errorf("%v; the account has %v", err, f.account())
	}
	if _, err := gputrain.Plan(t.Context(), cfg, rtx4090); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("plan: %v", err)
	}
	if _, err := gputrain.Reap(t.Context(), cfg); err != nil {
		t.Errorf("what there is cannot be reaped: %v", err)
	}
}

// A forgetful provider no longer has that permission when its machines are described.
type forgetful struct{ driver.Provider }

type forgetfulDriver struct{ driver.Driver }

func (p forgetful) Open(ctx context.Context) (driver.Driver, error) {
	d, err := p.Provider.Open(ctx)
	return forgetfulDriver{d}, err
}

func (d forgetfulDriver) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	got, err := d.Driver.Describe(ctx, ids...)
	for i := range got {
		got[i].SSH.PasswordAtFirstContact = false
	}
	return got, err
}

// The pool sends no password by itself, whatever a driver hands it.
func TestPasswordIsWithheld(t *testing.T) {
	f := startFake(t)
	pool, err := gputrain.Open(t.Context(), forgetful{f.config()}, rtx4090)
	if err == nil {
		pool.Close()
	}
	if !errors.Is(err, driver.ErrAuth) || !strings.Contains(err.Error(), "password was not sent") {
		t.Error(err)
	}
	for _, in := range f.instances.All(nil) {
		if n := in.machine.PasswordLogins(); n > 0 {
			t.Errorf("the password was sent %d times", n)
		}
	}
}
