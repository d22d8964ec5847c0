//go:build unix

package crash

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
)

// shared returns a victim whose nodes share a folder with the test.
func shared(t *testing.T, work string, nodes, slots int) victim {
	dir := t.TempDir()
	return victim{State: t.TempDir(), Name: "crash", Shared: dir, Work: work, Spec: gputrain.Spec{
		Nodes: nodes, Concurrency: slots, Lease: time.Minute, Mounts: []gputrain.Mount{{Source: dir, Target: "/shared"}},
	}}
}

// attach attaches to the pool of a killed victim. The pool ends with the test and must leave nothing behind.
func (v victim) attach(t *testing.T, opts ...gputrain.Option) *gputrain.Compute {
	t.Helper()
	opts = append([]gputrain.Option{gputrain.WithStateDir(v.State), gputrain.WithResultsDir(t.TempDir())}, opts...)
	pool, err := gputrain.Attach(t.Context(), container.Config{}, v.Name, opts...)
	if err != nil {
		id := poolID(t, v.State)
		_, reaped := gputrain.StateDir(v.State).Reap(t.Context(), container.Config{})
		t.Fatalf("attach to %s: %v (%v)", id, err, reaped)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		e2etest.WantNothingOf(t, pool.ID())
		wantNoPools(t, v.State)
	})
	return pool
}

// goOn lets the tasks of a victim end.
func (v victim) goOn(t *testing.T) { e2etest.WriteText(t, filepath.Join(v.Shared, "go"), "") }

// ranOnce checks that a gateTask ran once.
func (v victim) ranOnce(t *testing.T, what string) {
	t.Helper()
	if n := e2etest.Lines(filepath.Join(v.Shared, what)); n != 1 {
		t.Errorf("%q ran %d times", what, n)
	}
}

// hostKeys returns the host keys of a pool's containers, as the engine reports them.
func hostKeys(t *testing.T, id string) map[string][]string {
	t.Helper()
	driver, err := container.Config{}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	listed, err := driver.List(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range listed {
		if r.Kind == "machine" {
			ids = append(ids, r.ID)
		}
	}
	found, err := driver.Describe(t.Context(), ids...)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string][]string{}
	for _, inst := range found {
		keys[inst.Name+" "+inst.ID] = inst.SSH.HostKeys
	}
	return keys
}

// A program is killed before its pool is ready, or right after. A program that attaches gets the same nodes, and
// creates those that are missing.
func attachInEveryPhase(t *testing.T) {
	for _, phase := range []struct {
		name, at, until string
		nodes           int // nodes that exist by then
	}{
		{"before the launch", "launch", "at launch", 0},
		{"half launched", "half launched", "at half launched", 1},
		{"launched unknown to the program", "launched", "at launched", 2},
		{"connecting", "", "node connecting", 2},
		{"bootstrapping", "", "phase started", 2},
		{"ready", "", "pool ready", 2},
	} {
		t.Run(phase.name, func(t *testing.T) {
			t.Parallel()
			v := shared(t, "stand", 2, 1)
			v.HangAt = phase.at
			// Attach ends a command that still runs, and runs it again. This sleep makes sure that Attach does not come
			// just between the command's end and its record.
			v.Spec.Image.Setup = []string{"sleep 5; echo set up >>set-up.txt"}
			r := v.start(t)
			r.Await(phase.until)
			r.Kill()
			id := poolID(t, v.State)
			before := hostKeys(t, id)
			if len(before) != phase.nodes {
				t.Errorf("there are %d nodes", len(before))
			}
			pool := v.attach(t)
			if pool.ID() != id {
				t.Errorf("the pool is %s, and was %s", pool.ID(), id)
			}
			e2etest.Until(t, "two nodes", func() bool {
				ready := 0
				for _, n := range pool.Nodes() {
					if n.State == gputrain.NodeReady {
						ready++
					}
				}
				return ready == 2
			})
			all, err := pool.Broadcast(gputrain.Script(`cat set-up.txt; echo $GPUTRAIN_RANK of $GPUTRAIN_NODES`))
			if err != nil || len(all) != 2 {
				t.Errorf("%d nodes answer, %v", len(all), err)
			}
			for i, r := range all {
				if want := fmt.Sprintf("set up\n%d of 2\n", i); string(r.Stdout) != want {
					t.Errorf("node %d says %q", i, r.Stdout)
				}
			}
			after := hostKeys(t, id)
			if len(after) != 2 {
				t.Errorf("the nodes are %v", after)
			}
			for node, keys := range before {
				if !slices.Equal(after[node], keys) || len(keys) == 0 {
					t.Errorf("%s had the host keys %v, and has %v", node, keys, after[node])
				}
			}
			if len(pool.Jobs()) != 0 {
				t.Error("the pool has jobs, although none was started")
			}
			if err := pool.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The inputs, outputs and retries of tasks survive the program that started them.
func attachGatherOfEverything(t *testing.T) {
	v := shared(t, "gather", 1, 3)
	r := v.start(t)
	for range 4 { // all but those that wait for a slot
		r.Await("task started")
	}
	r.Kill()
	pool := v.attach(t)
	jobs := pool.Jobs()
	if len(jobs) != 6 {
		t.Fatalf("%d jobs", len(jobs))
	}
	v.goOn(t)
	files := map[int][]string{0: {"early.txt"}, 2: {"deep/file", "made.txt"}, 5: {"deep/file", "later.txt"}}
	stdout := map[int]string{1: "what it reads\n", 3: "third time\n", 4: "what it reads\n"}
	for i, job := range jobs {
		r, err := job.Wait()
		if err != nil || r.Index != i || string(r.Stdout) != stdout[i] {
			t.Errorf("job %d is task %d, wrote %q, %v", i, r.Index, r.Stdout, err)
		}
		var names []string
		for _, f := range r.Outputs {
			names = append(names, f.Name)
			if e2etest.ReadText(t, filepath.Join(r.OutputDir, f.Name)) == "" {
				t.Errorf("task %d: %s is empty", i, f.Name)
			}
		}
		if slices.Sort(names); !slices.Equal(names, files[i]) {
			t.Errorf("task %d left %v", i, names)
		}
		if i == 3 && r.Attempts != 3 {
			t.Errorf("it took %d attempts", r.Attempts)
		}
	}
	if n := e2etest.Lines(filepath.Join(v.Shared, "tries")); n != 3 {
		t.Errorf("the task that is retried ran %d times", n)
	}
}

// A secret is not stored: a process that has it continues, and a task that is retried needs it again.
func attachSecrets(t *testing.T) {
	secret := []byte(victimSecrets["TOKEN"])
	for _, given := range []bool{true, false} {
		t.Run(map[bool]string{true: "given", false: "missing"}[given], func(t *testing.T) {
			t.Parallel()
			v := shared(t, "secrets", 1, 1)
			r := v.start(t)
			r.Await("task started")
			e2etest.Until(t, "the first try", func() bool { return e2etest.Lines(filepath.Join(v.Shared, "tries")) == 1 })
			wantNoSecret(t, v.State, secret)
			r.Kill()
			wantNoSecret(t, v.State, secret)
			var opts []gputrain.Option
			if given {
				opts = append(opts, gputrain.WithSecrets(victimSecrets))
			}
			pool := v.attach(t, opts...)
			jobs := pool.Jobs()
			if len(jobs) != 3 {
				t.Fatalf("%d jobs", len(jobs))
			}
			wantNoSecret(t, v.State, secret)
			v.goOn(t)
			for i, job := range jobs {
				r, err := job.Wait()
				switch {
				case i == 2:
					if err != nil || string(r.Stdout) != "no secret\n" {
						t.Errorf("without a secret: %q, %v", r.Stdout, err)
					}
				case given:
					if want := fmt.Sprintln(len(secret)); err != nil || string(r.Stdout) != want {
						t.Errorf("task %d wrote %q, %v", i, r.Stdout, err)
					}
				default:
					var te *gputrain.TaskError
					cause := []gputrain.Cause{gputrain.CauseExit, gputrain.CauseNeverStarted}[i] // the first ran once
					if !errors.As(err, &te) || te.Cause != cause || !strings.Contains(err.Error(), "TOKEN") {
						t.Errorf("task %d without its secret: %v", i, err)
					}
				}
			}
			if want := map[bool]int{true: 2, false: 1}[given]; e2etest.Lines(filepath.Join(v.Shared, "tries")) != want {
				t.Errorf("the first task ran %d times", e2etest.Lines(filepath.Join(v.Shared, "tries")))
			}
			wantNoSecret(t, v.State, secret)
		})
	}
}

// wantNoSecret checks that no file in a folder contains a secret.
func wantNoSecret(t testing.TB, dir string, secret []byte) {
	t.Helper()
	files := 0
	for _, name := range e2etest.Tree(dir) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue // a folder, or a file that is gone
		}
		files++
		if bytes.Contains(b, secret) {
			t.Errorf("the secret is in %s", name)
		}
	}
	if files == 0 {
		t.Errorf("%s has no files", dir)
	}
}

func attachBroadcast(t *testing.T) {
	v := shared(t, "broadcast", 2, 1)
	r := v.start(t)
	r.Await("task started")
	r.Await("task started")
	r.Kill()
	pool := v.attach(t)
	v.goOn(t)
	jobs := pool.Jobs()
	if len(jobs) != 2 {
		t.Fatalf("%d jobs", len(jobs))
	}
	for rank, job := range jobs {
		r, err := job.Wait()
		want := fmt.Sprintf("begin rank %d\nend rank %d\n", rank, rank)
		if err != nil || r.Node.Rank != rank || string(r.Stdout) != want || r.Attempts != 1 {
			t.Errorf("node %d of %d: %q, %v", rank, r.Node.Rank, r.Stdout, err)
		}
		v.ranOnce(t, fmt.Sprint("rank ", rank))
	}
}

// Results that a program has received are not delivered again, whichever program that was: two programs in a row are
// killed.
func attachTwice(t *testing.T) {
	v := shared(t, "jobs", 2, 1)
	first := v.start(t)
	first.Await("task started")
	first.Await("task started")
	first.Await("all started")
	first.Kill()
	second := v
	second.Attach, second.Work = true, "wait for some"
	r := second.start(t)
	r.Await("pool ready")
	v.goOn(t)
	for i := range 3 {
		if got, want := r.Await("got "), fmt.Sprint(0, " <nil>"); got != want { // each job is its own call
			t.Errorf("job %d: %s", i, got)
		}
	}
	r.Kill()
	pool := v.attach(t)
	jobs := pool.Jobs()
	if len(jobs) != 3 {
		t.Errorf("%d jobs are left", len(jobs))
	}
	for i, job := range jobs {
		r, err := job.Wait()
		want := fmt.Sprintf("begin job %d\nend job %d\n", i+3, i+3)
		if err != nil || string(r.Stdout) != want {
			t.Errorf("job %d: %q, %v", i+3, r.Stdout, err)
		}
		var out bytes.Buffer
		if _, err := out.ReadFrom(job.Stdout()); err != nil || out.String() != want {
			t.Errorf("the output of job %d from its start is %q, %v", i+3, out.String(), err)
		}
	}
	for i := range 6 {
		v.ranOnce(t, fmt.Sprint("job ", i))
	}
}

func attachStream(t *testing.T) {
	v := shared(t, "stream", 1, 1)
	r := v.start(t)
	for i := range 4 {
		if got := r.Await("got "); got != fmt.Sprint(i, " <nil>") {
			t.Errorf("the stream's result %d is %s", i, got)
		}
	}
	e2etest.Until(t, "the task after those", func() bool { return e2etest.Lines(filepath.Join(v.Shared, "late 4")) == 1 })
	r.Kill()
	pool := v.attach(t)
	v.goOn(t)
	jobs := pool.Jobs()
	if len(jobs) != 3 {
		t.Errorf("%d jobs are left", len(jobs))
	}
	for i, job := range jobs {
		r, err := job.Wait()
		want := fmt.Sprintf("begin late %d\nend late %d\n", i+3, i+3)
		if i == 0 {
			want = "early 3\n" // the one that the program was handling
		}
		if err != nil || r.Index != i+3 || string(r.Stdout) != want {
			t.Errorf("task %d: %q, %v", r.Index, r.Stdout, err)
		}
	}
	for _, name := range []string{"0", "1", "2", "3", "late 4", "late 5"} {
		v.ranOnce(t, name)
	}
}
