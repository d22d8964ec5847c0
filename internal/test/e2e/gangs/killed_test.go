//go:build unix

package gangs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/local"
)

// A trainer is a program that trains on local nodes until it is killed.
type trainer struct {
	State, Nodes, Diary string
	Kind                string // a key of trainings
	Detach              bool   // once the training runs
}

// trainings are what trainers train. The processes of the first attempts wait for files of the diary.
var trainings = map[string]func(d diary) gputrain.Training{
	"waiting": func(d diary) gputrain.Training { return named("x", d.script("note runs")) },
	"starting": func(d diary) gputrain.Training {
		training := named("x", d.script("note runs"))
		training.Check = d.script(`: >"$d/checking.$RANK"; await go`)
		return training
	},
	"running": func(d diary) gputrain.Training {
		return named("x", d.script(`note runs; echo "gputrain: step=3"; echo out; echo err >&2; await go; echo "rank $RANK"`))
	},
	"failing": func(d diary) gputrain.Training {
		training := named("x", d.script(`note runs; trap 'await go; exit 4' TERM; meet 2 begun; [ $GPUTRAIN_ATTEMPT = 1 ] || exit 0; [ $RANK = 1 ] || exit 3; while :; do sleep 0.1; done`))
		training.Restarts = 1
		return training
	},
	"failed": func(d diary) gputrain.Training { // fails while no program has the pool
		training := named("x", d.script(`note runs; meet 2 begun; [ $GPUTRAIN_ATTEMPT = 1 ] || exit 0; await go; [ $RANK = 1 ] || exit 3; sleep 600`))
		training.Restarts = 1
		return training
	},
	"restarting": func(d diary) gputrain.Training {
		training := named("x", d.script(`note runs; echo "gputrain: step=$GPUTRAIN_ATTEMPT"; meet 2 begun; [ $GPUTRAIN_ATTEMPT -lt 4 ] || { await go; exit; }; exit $((2 + GPUTRAIN_ATTEMPT))`))
		training.Restarts = 3
		return training
	},
	"functions": func(d diary) gputrain.Training { return named("x", waits.Call(string(d))) },
}

// waits adds a line to a diary and waits until it may end.
var waits = gputrain.Func("gangs/waits", func(ctx context.Context, dir string) (int, error) {
	n := gputrain.ThisNode(ctx)
	if err := note(dir, fmt.Sprintf("%d %d runs", n.Attempt, n.Rank)); err != nil {
		return 0, err
	}
	for !e2etest.Exists(dir + "/go") {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return n.Rank, nil
})

var trainers = e2etest.NewRole("trainer", func(p trainer) error {
	pool, err := gputrain.Open(context.Background(), local.Config{Dir: p.Nodes}, gputrain.Spec{Nodes: 2, Lease: time.Minute},
		gputrain.WithStateDir(p.State), gputrain.WithName("pool"), gputrain.WithEvents(func(ev gputrain.Event) {
			if ev.Kind != gputrain.EventTraining {
				return
			}
			e2etest.Say("state %d %s", ev.Attempt, ev.State)
		}))
	if err != nil {
		return err
	}
	if p.Kind == "waiting" {
		task := diary(p.Diary).script("note busy; await go")
		task.Target = gputrain.OnRank(1)
		pool.Start(task)
		e2etest.Settles(func() bool { return e2etest.Lines(p.Diary+"/diary") == 1 })
	}
	if p.Detach {
		go func() {
			e2etest.Settles(func() bool { return e2etest.Lines(p.Diary+"/diary") == 2 })
			_, err := pool.Detach()
			e2etest.Say("detached %v", err)
		}()
	}
	_, err = pool.Train(trainings[p.Kind](diary(p.Diary)))
	e2etest.Say("trained %v", err)
	if p.Detach {
		select {}
	}
	return pool.Close()
})

// attach attaches to the pool of a trainer.
func (p trainer) attach(t *testing.T, opts ...gputrain.Option) *gputrain.Compute {
	t.Helper()
	pool, err := gputrain.Attach(t.Context(), local.Config{Dir: p.Nodes}, "pool", append([]gputrain.Option{
		gputrain.WithStateDir(p.State), gputrain.WithResultsDir(t.TempDir())}, opts...)...)
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

func newTrainer(t *testing.T, kind string) trainer {
	return trainer{State: t.TempDir(), Nodes: e2etest.ShortDir(t), Diary: t.TempDir(), Kind: kind}
}

// A training goes on after its program is killed, in whatever state it is.
func TestKilled(t *testing.T) {
	slow(t)
	for _, tt := range []struct {
		kind, state string
		alive       string   // a line of the diary by when it is killed
		attempts    int      // afterwards, in all
		diary       []string // then
	}{
		{"waiting", "1 waiting", "", 1, []string{"  busy", "1 0 runs", "1 1 runs"}},
		{"starting", "1 starting", "", 1, []string{"1 0 runs", "1 1 runs"}},
		{"running", "1 running", "1 1 runs", 1, []string{"1 0 runs", "1 1 runs"}},
		{"failing", "1 failing", "", 2, []string{"1 0 runs", "1 1 runs", "2 0 runs", "2 1 runs"}},
		{"failed", "1 running", "1 1 runs", 2, []string{"1 0 runs", "1 1 runs", "2 0 runs", "2 1 runs"}},
		{"restarting", "3 restarting", "", 4, []string{"1 0 runs", "1 1 runs", "2 0 runs", "2 1 runs", "3 0 runs", "3 1 runs", "4 0 runs", "4 1 runs"}},
		{"functions", "1 running", "1 1 runs", 2, []string{"1 0 runs", "1 1 runs", "2 0 runs", "2 1 runs"}},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			p := newTrainer(t, tt.kind)
			d := diary(p.Diary)
			child := trainers.Start(t, p)
			child.Await("state " + tt.state)
			if tt.alive != "" {
				d.await(t, tt.alive)
				d.await(t, "1 0 runs")
			}
			if tt.kind == "starting" {
				e2etest.Until(t, "the check", func() bool { return e2etest.Exists(p.Diary + "/checking.1") })
			}
			child.Kill()
			var s states
			pool := p.attach(t, gputrain.WithEvents(s.add))
			d.allow(t, "go")
			r, err := pool.Train(trainings[tt.kind](d))
			if err != nil {
				t.Fatalf("%v", err)
			}
			d.want(t, tt.diary...)
			if got := r.Attempts[0].Err; tt.kind == "functions" && (got == nil || !strings.Contains(got.Error(), "has ended")) {
				t.Errorf("the attempt that was not followed: %v", got)
			}
			if len(r.Attempts) != tt.attempts || len(r.Ranks) != 2 {
				t.Errorf("%d attempts, %d ranks: %v", len(r.Attempts), len(r.Ranks), s.of("x"))
			}
			for i, e := range r.Attempts {
				if e.Number != i+1 || len(e.Nodes) != 2 || (e.Err == nil) != (i == tt.attempts-1) {
					t.Errorf("%+v", e)
				}
			}
			for i, rank := range r.Ranks {
				if rank.Index != i || rank.Node.Rank != i || rank.Err != nil || rank.Attempts != tt.attempts {
					t.Errorf("%+v", rank)
				}
				if tt.kind == "running" && (string(rank.Stdout) != fmt.Sprintf("gputrain: step=3\nout\nrank %d\n", i) || string(rank.Stderr) != "err\n" || r.Step != 3) {
					t.Errorf("%q %q", rank.Stdout, rank.Stderr)
				}
			}
			for _, job := range pool.Jobs() {
				if _, err := job.Wait(); err != nil {
					t.Error(err)
				}
			}
			nothingLeft(t, pool.ID())
			nodesWork(t, pool)
		})
	}
}

// The failures that an earlier program has seen count.
func TestKilledRestartsCount(t *testing.T) {
	slow(t)
	p := newTrainer(t, "failed")
	child := trainers.Start(t, p)
	child.Await("state 1 running")
	diary(p.Diary).await(t, "1 1 runs")
	child.Kill()
	pool := p.attach(t)
	diary(p.Diary).allow(t, "go")
	training := trainings["failed"](diary(p.Diary))
	training.Restarts = 0
	r, err := pool.Train(training)
	if failed := failure(t, err); failed.Attempt != 1 || failed.Failures[0].ExitCode != 3 || failed.Failures[0].Rank != 0 || len(r.Attempts) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	nothingLeft(t, pool.ID())
}

// Detach leaves the processes as they are.
func TestDetached(t *testing.T) {
	p := newTrainer(t, "running")
	p.Detach = true
	d := diary(p.Diary)
	child := trainers.Start(t, p)
	child.Await("detached <nil>")
	if said := child.Await("trained "); !strings.Contains(said, "Detach") {
		t.Error(said)
	}
	d.await(t, "1 1 runs")
	var s states
	pool := p.attach(t, gputrain.WithEvents(s.add))
	d.allow(t, "go")
	r, err := pool.Train(trainings["running"](d))
	if err != nil || len(r.Attempts) != 1 || slices.Contains(s.of("x"), "2 starting") {
		t.Errorf("%+v, %v", r, err)
	}
	d.want(t, "1 0 runs", "1 1 runs")
	nodesWork(t, pool)
}

// Without a Train, Attach keeps the nodes for it, and Close ends all of it.
func TestKilledAndClosed(t *testing.T) {
	p := newTrainer(t, "running")
	d := diary(p.Diary)
	child := trainers.Start(t, p)
	child.Await("state 1 running")
	d.await(t, "1 0 runs")
	d.await(t, "1 1 runs")
	child.Kill()
	pool := p.attach(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if r, err := pool.WithContext(ctx).Run(gputrain.Cmd("true")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%+v, %v", r, err)
	}
	other := trainings["running"](d)
	other.Task.Name = "y"
	if _, err := pool.WithContext(ctx).Train(other); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	fewer := trainings["running"](d)
	fewer.Nodes = 1
	if _, err := pool.Train(fewer); !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "it has 2 nodes") {
		t.Errorf("another training of that name: %v", err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	d.want(t, "1 0 runs", "1 1 runs")
	nothingLeft(t, pool.ID())
	e2etest.WantEmpty(t, p.Nodes)
}

// Reap ends all that a killed program has left.
func TestKilledAndReaped(t *testing.T) {
	p := newTrainer(t, "running")
	d := diary(p.Diary)
	child := trainers.Start(t, p)
	child.Await("state 1 running")
	d.await(t, "1 0 runs")
	d.await(t, "1 1 runs")
	child.Kill()
	pools, err := gputrain.StateDir(p.State).Pools()
	if err != nil || len(pools) != 1 {
		t.Fatal(pools, err)
	}
	if _, err := gputrain.StateDir(p.State).Reap(t.Context(), local.Config{Dir: p.Nodes}); err != nil {
		t.Error(err)
	}
	nothingLeft(t, pools[0].ID)
	e2etest.WantEmpty(t, p.Nodes)
}
