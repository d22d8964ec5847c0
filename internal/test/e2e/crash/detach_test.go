//go:build unix

package crash

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/sidebyside"
	"github.com/gputrain/gputrain/providers/ssh"
)

// gate adds a line to the file "call" of a folder, and returns once the folder has the file "go".
var gate = gputrain.Func("detach/gate", func(ctx context.Context, dir string) (string, error) {
	f, err := os.OpenFile(filepath.Join(dir, "call"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	f.WriteString("ran\n")
	f.Close()
	for ctx.Err() == nil {
		if _, err := os.Stat(filepath.Join(dir, "go")); err == nil {
			return "the gate is open", nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return "", ctx.Err()
})

// gated returns a command that does so too, with a file of its name.
func gated(dir, name string) gputrain.Task {
	t := gputrain.Script(strings.NewReplacer("DIR", dir, "NAME", name).Replace(`echo ran >>DIR/NAME; echo begin; until [ -e DIR/go ]; do sleep 0.05; done; echo end`))
	t.Name = name
	return t
}

// folder is the shared folder as the nodes see it.
func (v victim) folder() string {
	if v.Local != "" || v.Hosts != nil {
		return v.Shared
	}
	return "/shared"
}

func init() {
	// leave leaves the pool once a command and a call run, for which a Gather waits, with a command that waits for a slot.
	victimWork["leave"] = func(pool *gputrain.Compute, v victim) {
		over := make(chan error)
		go func() {
			_, err := pool.Gather(gated(v.folder(), "runs"), gate.Call(v.folder()), gated(v.folder(), "waits"))
			over <- err
		}()
		for e2etest.Lines(filepath.Join(v.Shared, "runs")) == 0 || e2etest.Lines(filepath.Join(v.Shared, "call")) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		id, err := pool.Detach()
		e2etest.Say("left %s %v", id, err)
		err = <-over
		e2etest.Say("gather %v %v", errors.Is(err, gputrain.ErrClosed), strings.Contains(err.Error(), "this program has left it by Detach"))
	}
}

// TestDetach has a program leave its pool and end. Another program attaches at once, and is killed, and a third one gets the
// results of everything, which ran once.
func TestDetach(t *testing.T) {
	leave := func(t *testing.T, v victim, end func(id string)) {
		v.State, v.Name, v.Work, v.Shared = t.TempDir(), "left", "leave", t.TempDir()
		v.Spec = gputrain.Spec{Nodes: 1, Concurrency: 2, Lease: time.Minute}
		if v.folder() == "/shared" {
			v.Spec.Mounts = []gputrain.Mount{{Source: v.Shared, Target: v.folder()}}
		}
		first := v.start(t)
		id, err, _ := strings.Cut(first.Await("left "), " ")
		if want := poolID(t, v.State); id != want || err != "<nil>" {
			t.Fatalf("%s is left, %s; the pool is %s", id, err, want)
		}
		if got := first.Await("gather "); got != "true true" {
			t.Errorf("the error of the call is ErrClosed, and says so: %s", got)
		}
		if got := first.Await("closed "); got != "well" {
			t.Errorf("Close: %s", got)
		}
		first.Wait()
		if code := first.Cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("the program ends with %d\n%s", code, first.Log.String())
		}

		v.Attach, v.Work = true, "stand"
		second := v.start(t)
		second.Await("pool ready")
		second.Kill()

		pool, attachErr := gputrain.Attach(t.Context(), v.provider(), v.Name, gputrain.WithStateDir(v.State), gputrain.WithResultsDir(t.TempDir()))
		if attachErr != nil {
			v.reap(t)
			t.Fatal(attachErr)
		}
		defer func() {
			if err := pool.Close(); err != nil {
				t.Error(err)
			}
			wantNoPools(t, v.State)
			end(id)
		}()
		v.goOn(t)
		jobs := pool.Jobs()
		if len(jobs) != 3 {
			t.Fatalf("%d jobs", len(jobs))
		}
		for i, name := range []string{"runs", "call", "waits"} {
			r, err := jobs[i].Wait()
			if name == "call" {
				if got, err := gate.Value(r); err != nil || got != "the gate is open" {
					t.Errorf("the call returns %q, %v", got, err)
				}
			} else if err != nil || string(r.Stdout) != "begin\nend\n" {
				t.Errorf("%s: %q, %v", name, r.Stdout, err)
			}
			v.ranOnce(t, name)
		}
	}
	nothing := func(t *testing.T, id string) {
		e2etest.Until(t, "the end of its processes", func() bool { return len(e2etest.ProcessesWith("GPUTRAIN_POOL="+id)) == 0 })
	}
	sidebyside.Run(t, 3, []sidebyside.Test{
		{Name: "local", Run: func(t *testing.T) {
			v := victim{Local: t.TempDir()}
			leave(t, v, func(id string) { nothing(t, id) })
		}},
		{Name: "hosts", Run: func(t *testing.T) {
			v := victim{Hosts: []ssh.Host{e2etest.NewHost(t).Host()}}
			leave(t, v, func(id string) { nothing(t, id) })
		}},
		{Name: "container", Run: func(t *testing.T) {
			e2etest.NeedDocker(t)
			leave(t, victim{}, func(id string) { e2etest.WantNothingOf(t, id) })
		}},
	})
}
