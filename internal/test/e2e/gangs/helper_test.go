//go:build unix

package gangs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/sim"
)

// states are the states of trainings, in order: "2 failing".
type states struct {
	mu  sync.Mutex
	all map[string][]string // by training
}

func (s *states) add(ev gputrain.Event) {
	if ev.Kind != gputrain.EventTraining {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string][]string{}
	}
	s.all[ev.Name] = append(s.all[ev.Name], fmt.Sprint(ev.Attempt, " ", ev.State))
}

func (s *states) of(training string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all[training])
}

// await waits until a training has been in a state.
func (s *states) await(t testing.TB, training, state string) {
	t.Helper()
	e2etest.Until(t, training+" is "+state, func() bool { return slices.Contains(s.of(training), state) })
}

// A diary is a folder in which processes of all nodes write.
type diary string

func newDiary(t testing.TB) diary { return diary(t.TempDir()) }

// script returns a script that may use these shell functions of the diary: "note WORDS" adds a line that begins with the attempt
// and the rank, "meet N NAME" waits until N processes have met, "await NAME" waits for a file, and "save N" saves the
// checkpoint of a step.
func (d diary) script(text string) gputrain.Task {
	return gputrain.Script(`d='` + string(d) + `'
note() { echo "$GPUTRAIN_ATTEMPT $RANK $*" >>"$d/diary"; }
await() { until [ -e "$d/$1" ]; do sleep 0.05; done; }
meet() { : >"$d/$2.$GPUTRAIN_ATTEMPT.$RANK"; until [ "$(ls "$d" | grep -c "^$2\.$GPUTRAIN_ATTEMPT\.")" -ge "$1" ]; do sleep 0.05; done; }
save() { mkdir "$GPUTRAIN_CHECKPOINTS/.tmp" && echo "$1" >"$GPUTRAIN_CHECKPOINTS/.tmp/model" && mv "$GPUTRAIN_CHECKPOINTS/.tmp" "$GPUTRAIN_CHECKPOINTS/step-$1"; }
` + text)
}

// lines returns the diary, sorted.
func (d diary) lines(t testing.TB) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(string(d), "diary"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return slices.Sorted(strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n"))
}

// want fails if the diary has other lines, in whatever order.
func (d diary) want(t testing.TB, lines ...string) {
	t.Helper()
	slices.Sort(lines)
	if got := d.lines(t); !slices.Equal(got, lines) {
		t.Errorf("the diary has %q, not %q", got, lines)
	}
}

// await waits until the diary has a line.
func (d diary) await(t testing.TB, line string) {
	t.Helper()
	e2etest.Until(t, "the line "+line, func() bool { return slices.Contains(d.lines(t), line) })
}

// allow makes a file for which processes await.
func (d diary) allow(t testing.TB, name string) {
	e2etest.Write(t, filepath.Join(string(d), name), nil)
}

// named returns a training of a task with a name.
func named(name string, task gputrain.Task) gputrain.Training {
	task.Name = name
	return gputrain.Training{Task: task}
}

// failure returns the error of a training, which must have one that is a TrainError.
func failure(t testing.TB, err error) *gputrain.TrainError {
	t.Helper()
	failed, ok := errors.AsType[*gputrain.TrainError](err)
	if !ok || len(failed.Failures) == 0 {
		t.Fatalf("it is no failure of an attempt: %v", err)
	}
	return failed
}

// nothingLeft fails if a process of a pool's trainings is left on this machine.
func nothingLeft(t testing.TB, pool string) {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, _ := os.ReadFile(file)
		if strings.Contains(string(env), "\x00GPUTRAIN_GANG="+pool+".") || strings.HasPrefix(string(env), "GPUTRAIN_GANG="+pool+".") {
			args, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			t.Errorf("%s is left: %q", filepath.Dir(file), args)
		}
	}
}

// nodesWork runs a task on each node of a pool.
func nodesWork(t testing.TB, pool *gputrain.Compute) {
	t.Helper()
	if _, err := pool.Broadcast(gputrain.Cmd("true")); err != nil {
		t.Errorf("the nodes are not free: %v", err)
	}
}

// openLocal is e2etest.Open with a folder for the nodes.
func openLocal(t testing.TB, nodes string, spec gputrain.Spec, opts ...gputrain.Option) *gputrain.Compute {
	t.Helper()
	pool, err := gputrain.Open(t.Context(), local.Config{Dir: nodes}, spec, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return pool
}

// openNear opens a pool in a simulated cloud with real processes, whose machines have an address by which they reach each other.
func openNear(t testing.TB, cloud *sim.Cloud, spec gputrain.Spec, opts ...gputrain.Option) *gputrain.Compute {
	t.Helper()
	here := func(all []driver.Instance, err error) ([]driver.Instance, error) {
		for i := range all {
			all[i].PrivateAddr = "127.0.0.1"
		}
		return all, err
	}
	near := &e2etest.Wrapped{
		Provider: sim.Config{Cloud: cloud},
		OnLaunch: func(ctx context.Context, r driver.Launch, d driver.Driver) ([]driver.Instance, error) {
			return here(d.Launch(ctx, r))
		},
		OnDescribe: func(all []driver.Instance) ([]driver.Instance, error) { return here(all, nil) },
	}
	pool, err := gputrain.Open(t.Context(), near, spec, append([]gputrain.Option{gputrain.WithResultsDir(t.TempDir())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return pool
}

// note adds a line to the diary in a folder.
func note(dir, line string) error {
	f, err := os.OpenFile(filepath.Join(dir, "diary"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}

// slow skips a test of ten seconds and more in a short run.
func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it takes ten seconds")
	}
}
