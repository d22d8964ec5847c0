//go:build unix

package tasks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// save is shell text that saves a checkpoint of a step.
func save(step string) string {
	return `mkdir -p "$GPUTRAIN_CHECKPOINTS/.tmp" && echo "` + step + `" >"$GPUTRAIN_CHECKPOINTS/.tmp/model" && mv "$GPUTRAIN_CHECKPOINTS/.tmp" "$GPUTRAIN_CHECKPOINTS/step-` + step + `"
`
}

// wantStep fails if the newest checkpoint of a folder of this computer is not that of a step.
func wantStep(t *testing.T, dir, step string) {
	t.Helper()
	if got := e2etest.ReadText(t, filepath.Join(dir, "step-"+step, "model")); got != step+"\n" {
		t.Errorf("step %s is %q", step, got)
	}
	steps, _ := filepath.Glob(filepath.Join(dir, "step-*"))
	for _, s := range steps {
		if len(s) > len(filepath.Join(dir, "step-"+step)) || len(s) == len(filepath.Join(dir, "step-"+step)) && s > filepath.Join(dir, "step-"+step) {
			t.Errorf("%s is newer", s)
		}
	}
}

// An attempt that follows a failure goes on from the last checkpoint, which came after the end of the one before, and only
// Keep of them stay on either side.
func TestCheckpointsOfARetry(t *testing.T) {
	to := t.TempDir()
	pool := e2etest.Open(t, gputrain.Spec{})
	task := gputrain.Script(`set -e
ls "$GPUTRAIN_CHECKPOINTS"; echo "from ${GPUTRAIN_RESUME##*/}"; [ "$GPUTRAIN_RESUME" = "" ] || cat "$GPUTRAIN_RESUME/model"
[ ! -e "$GPUTRAIN_NOTICE" ]; [ "$GPUTRAIN_ATTEMPT" = 1 ] || exit 0
` + save("9") + save("10") + `exit 3`)
	task.Name, task.Retries, task.Checkpoints = "my run/a", 1, gputrain.Checkpoints{To: to, Keep: 1, Every: time.Second}
	r, err := pool.Run(task)
	if err != nil || string(r.Stdout) != "step-10\nfrom step-10\n10\n" && string(r.Stdout) != "step-10\nstep-9\nfrom step-10\n10\n" {
		t.Errorf("%q, %v, %s", r.Stdout, err, r.Stderr)
	}
	wantStep(t, filepath.Join(to, "my%20run%2Fa"), "10")
}

// A task whose node is lost goes on from its last checkpoint on another node, in a folder that it has named itself.
func TestCheckpointsOfALostNode(t *testing.T) {
	c, to := e2etest.RealCloud(t), t.TempDir()
	pool := e2etest.OpenReal(t, c, gputrain.Spec{Nodes: 2})
	dir := t.TempDir()
	task := gputrain.Script(`[ -z "$GPUTRAIN_RESUME" ] || { pwd; echo "$GPUTRAIN_RESUME"; cat "$GPUTRAIN_RESUME/model"; exit 0; }
echo "$GPUTRAIN_NODE_RANK" >"` + dir + `/rank"
` + save("5") + `mkdir -p out/ckpt/.tmp; sleep 600`)
	task.Name, task.Checkpoints = "lost", gputrain.Checkpoints{Dir: "out/ckpt", To: to, Every: time.Second}
	job := pool.Start(task)
	e2etest.Until(t, "a checkpoint", func() bool { return e2etest.Exists(filepath.Join(to, "lost", "step-5")) })
	rank, err := strconv.Atoi(strings.TrimSpace(e2etest.ReadText(t, filepath.Join(dir, "rank"))))
	if err != nil {
		t.Fatal(err)
	}
	first := pool.Nodes()[rank].ID
	if err := c.Vanish(first); err != nil {
		t.Fatal(err)
	}
	r, err := job.Wait()
	lines := strings.Split(string(r.Stdout), "\n")
	if err != nil || r.Node.ID == first || len(lines) != 4 || lines[1] != lines[0]+"/out/ckpt/step-5" || lines[2] != "5" {
		t.Errorf("%q on %s, %v", r.Stdout, r.Node.ID, err)
	}
}

// The last checkpoint of a task that is cancelled still comes, and a failure to copy is an event and not the task's.
func TestCheckpointsOfACancelledTask(t *testing.T) {
	to := t.TempDir()
	pool := e2etest.Open(t, gputrain.Spec{})
	task := gputrain.Script(`trap '` + save("2") + ` exit 1' TERM
` + save("1") + `sleep 600 & wait`)
	task.Name, task.Checkpoints = "c", gputrain.Checkpoints{To: to}
	job := pool.Start(task)
	e2etest.Until(t, "a checkpoint", func() bool { return e2etest.Exists(filepath.Join(to, "c", "step-1")) })
	job.Cancel()
	if _, err := job.Wait(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	wantStep(t, filepath.Join(to, "c"), "2")
}

// What cannot be copied is an event, and the task succeeds.
func TestCheckpointsThatCannotCome(t *testing.T) {
	file := e2etest.SomeFile(t)
	failed := make(chan gputrain.Event, 100)
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventTransfer && e.State == "failed" && e.Err != nil {
			failed <- e
		}
	}))
	task := gputrain.Script(save("1"))
	task.Name, task.Checkpoints = "c", gputrain.Checkpoints{To: filepath.Join(file, "below")}
	if _, err := pool.Run(task); err != nil {
		t.Error(err)
	}
	if e := <-failed; e.Name != "c" || e.Path != "step-1" || !strings.Contains(e.Err.Error(), "step-1 could not be copied") {
		t.Errorf("%+v", e)
	}
}

// A function finds its checkpoints in ThisNode. Without To they are in the pool's results.
func TestCheckpointsOfAFunction(t *testing.T) {
	results := t.TempDir()
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithResultsDir(results))
	task := climb.Call(3)
	task.Name, task.Retries, task.Checkpoints = "climb", 5, gputrain.Checkpoints{Every: time.Second}
	r, err := pool.Run(task)
	if err != nil {
		t.Fatal(err)
	}
	if from, err := climb.Value(r); from != "step-2" || r.Attempts != 3 || err != nil {
		t.Errorf("attempt %d went on from %q, %v", r.Attempts, from, err)
	}
	wantStep(t, filepath.Join(results, "checkpoints", "climb"), "3")
}

// climb saves one checkpoint more than it finds, and fails until there are so many.
var climb = gputrain.Func("tasks/climb", func(ctx context.Context, most int) (string, error) {
	n := gputrain.ThisNode(ctx)
	from := filepath.Base(n.Resume)
	next := "1"
	if n.Resume != "" {
		b, err := os.ReadFile(filepath.Join(n.Resume, "model"))
		if err != nil {
			return "", err
		}
		next = string('1' + b[0] - '0')
	}
	tmp := filepath.Join(n.Checkpoints, ".tmp")
	if err := errors.Join(os.Mkdir(tmp, 0o700), os.WriteFile(filepath.Join(tmp, "model"), []byte(next+"\n"), 0o600), os.Rename(tmp, filepath.Join(n.Checkpoints, "step-"+next))); err != nil {
		return "", err
	}
	if int(next[0]-'0') < most {
		return "", errors.New("not yet")
	}
	return from, nil
})

// A noticer is a cloud whose machines are taken back once a file is there, which has the seconds that are left.
type noticer struct {
	gputrain.Provider
	file string
}

func (p noticer) Open(ctx context.Context) (driver.Driver, error) {
	d, err := p.Provider.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &noticerDriver{d, d.(driver.Dialer), p.file}, nil
}

type noticerDriver struct {
	driver.Driver
	driver.Dialer
	file string
}

func (d *noticerDriver) Scripts(in driver.Instance) driver.Scripts {
	s := d.Driver.(driver.Scripter).Scripts(in)
	s.PreemptionWatch = "cat '" + d.file + "'" // a node looks every 5 seconds, and is asked about every 15
	return s
}

// A task learns that its node is taken back, and what it saves then comes at once. Real nodes copy files.
func TestCheckpointsAtANotice(t *testing.T) {
	c, to, dir := e2etest.RealCloud(t), t.TempDir(), t.TempDir()
	offer := e2etest.OfferAt("here", 0.2)
	offer.Spot = true
	c.SetOffers(offer)
	notice := filepath.Join(dir, "left")
	pool, err := gputrain.Open(t.Context(), noticer{sim.Config{Cloud: c}, notice}, gputrain.Spec{Allocation: gputrain.Spot}, gputrain.WithResultsDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	task := gputrain.Script(`[ -z "$GPUTRAIN_RESUME" ] || exit 0
` + save("1") + `: >'` + dir + `/began'; until [ -e "$GPUTRAIN_NOTICE" ]; do sleep 0.1; done; left=$(cat "$GPUTRAIN_NOTICE"); [ "$left" -gt 0 ] || exit 1
` + save("2") + `sleep 600`)
	task.Name, task.Checkpoints = "n", gputrain.Checkpoints{To: to, Every: time.Hour}
	job := pool.Start(task)
	began(t, filepath.Join(dir, "began"))
	e2etest.WriteText(t, notice, "600")
	e2etest.Until(t, "the last checkpoint", func() bool { return e2etest.Exists(filepath.Join(to, "n", "step-2")) })
	job.Cancel()
	job.Wait()
}

// Mistakes are refused before anything runs.
func TestInvalidCheckpoints(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	for says, change := range map[string]func(*gputrain.Task){
		"need a Name":            func(t *gputrain.Task) { t.Name = "" },
		`Checkpoints.Dir is "/"`: func(t *gputrain.Task) { t.Checkpoints.Dir = "/" },
		`Dir is "a/../.."`:       func(t *gputrain.Task) { t.Checkpoints.Dir = "a/../.." },
		`Dir is "./"`:            func(t *gputrain.Task) { t.Checkpoints.Dir = "./" },
		"newline":                func(t *gputrain.Task) { t.Checkpoints.Dir = "a\nb" },
		"a folder of this comp":  func(t *gputrain.Task) { t.Checkpoints.To = "s3://b/p" },
		"Keep is -1":             func(t *gputrain.Task) { t.Checkpoints.Keep = -1 },
		"the most is 10000":      func(t *gputrain.Task) { t.Checkpoints.Keep = 10001 },
		"the least is 1s":        func(t *gputrain.Task) { t.Checkpoints.Every = time.Millisecond },
		"cannot be negative":     func(t *gputrain.Task) { t.Checkpoints.Every = -time.Second },
		"nothing is copied":      func(t *gputrain.Task) { t.Checkpoints.Shared, t.Checkpoints.Dir = true, "/s" },
		"name the Shared folder": func(t *gputrain.Task) { t.Checkpoints = gputrain.Checkpoints{Shared: true} },
	} {
		task := gputrain.Cmd("true")
		task.Name, task.Checkpoints = "a", gputrain.Checkpoints{To: "x", Keep: 1}
		change(&task)
		if _, err := pool.Run(task); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	task := gputrain.Cmd("true")
	task.Name, task.Checkpoints = "a", gputrain.Checkpoints{Keep: 1}
	if _, err := pool.Gather(task, task); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), `both named "a"`) {
		t.Error(err)
	}
	if _, err := pool.Broadcast(task); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "use Train") {
		t.Error(err)
	}
}

// What a node calls its checkpoints removes none of an earlier attempt, or of an earlier task. Steps that the attempt has printed do.
func TestCheckpointNamesRemoveNothing(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	for name, tt := range map[string]struct {
		says string
		left []string
	}{
		"silent": {"", []string{"step-10", "step-9000000000000000003"}},
		"lies":   {"gputrain: step=11\n", []string{"step-10", "step-9000000000000000003"}},
		"honest": {"gputrain: step=9000000000000000003\n", []string{"step-9000000000000000003"}},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			// Each waits until the one before is here.
			comes := func(step string) string {
				return save(step) + `until [ -e "` + filepath.Join(to, name, "step-"+step) + `" ]; do sleep 0.1; done
`
			}
			task := gputrain.Script(`set -e
printf '` + tt.says + `'
if [ "$GPUTRAIN_ATTEMPT" = 1 ]; then ` + comes("10") + `exit 3; fi
` + comes("9000000000000000001") + comes("9000000000000000002") + comes("9000000000000000003"))
			task.Name, task.Retries, task.Timeout = name, 1, 2*time.Minute
			task.Checkpoints = gputrain.Checkpoints{To: to, Keep: 1, Every: time.Second}
			if r, err := pool.Run(task); err != nil {
				t.Fatalf("%v, %s", err, r.Stderr)
			}
			var left []string
			entries, err := os.ReadDir(filepath.Join(to, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if !strings.HasPrefix(e.Name(), ".") {
					left = append(left, e.Name())
				}
			}
			if !slices.Equal(left, tt.left) {
				t.Errorf("left are %q, want %q", left, tt.left)
			}
		})
	}
}
