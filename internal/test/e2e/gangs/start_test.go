//go:build unix

package gangs

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// No process runs its command before all of them exist.
func TestReleaseOfAll(t *testing.T) {
	d := newDiary(t)
	var s states
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2}, gputrain.WithEvents(s.add))
	training := named("all", d.script(`n=$(cat $(grep -lsF "GPUTRAIN_GANG=$GPUTRAIN_GANG" /proc/[0-9]*/environ) 2>/dev/null | tr '\0' '\n' | grep '^RANK=' | sort -u | wc -l)
note "sees $n of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE on $NODE_RANK"
meet 4 seen`))
	training.ProcessesPerNode = 2
	r, err := pool.Train(training)
	if err != nil {
		t.Fatal(err)
	}
	d.want(t, "1 0 sees 4 of 4, 0 of 2 on 0", "1 1 sees 4 of 4, 1 of 2 on 0", "1 2 sees 4 of 4, 0 of 2 on 1", "1 3 sees 4 of 4, 1 of 2 on 1")
	if len(r.Ranks) != 4 || len(r.Attempts) != 1 || r.Attempts[0].Err != nil || len(r.Attempts[0].Nodes) != 2 || r.Attempts[0].From.IsZero() || r.Attempts[0].To.Before(r.Attempts[0].From) {
		t.Errorf("%+v", r)
	}
	for i, rank := range r.Ranks {
		if rank.Index != i || rank.Node.Rank != i/2 || rank.ExitCode != 0 || rank.Attempts != 1 || rank.Err != nil {
			t.Errorf("rank %d: %+v", i, rank)
		}
	}
	e2etest.Until(t, "the last event", func() bool { return slices.Contains(s.of("all"), "1 done") })
	if got := s.of("all"); !slices.Equal(got, []string{"1 waiting", "1 starting", "1 running", "1 done"}) {
		t.Error(got)
	}
	nothingLeft(t, pool.ID())
	nodesWork(t, pool)
}

// A process that cannot be started keeps the others from their commands, and ends the training.
func TestReleaseOfNone(t *testing.T) {
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 3})
	if _, err := pool.Broadcast(gputrain.Script(`[ "$GPUTRAIN_RANK" = 1 ] || mkdir work`)); err != nil {
		t.Fatal(err)
	}
	training := named("none", d.script(`note runs`))
	training.Task.Dir, training.Restarts = "work", 5
	r, err := pool.Train(training)
	if root := failure(t, err).Failures[0]; root.Cause != gputrain.CauseNeverStarted || root.Node.Rank != 1 || !strings.Contains(err.Error(), "work") {
		t.Errorf("%+v, %v", root, err)
	}
	if len(r.Attempts) != 1 {
		t.Errorf("%d attempts", len(r.Attempts))
	}
	d.want(t, "")
	nothingLeft(t, pool.ID())
	training.Task.Dir = ""
	if _, err := pool.Train(training); err != nil {
		t.Error(err)
	}
}

// Each attempt has a port of its own, and nothing of the one before: not a child with a session of its own either that ignores TERM.
func TestAttempts(t *testing.T) {
	slow(t)
	d := newDiary(t)
	var s states
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2}, gputrain.WithEvents(s.add))
	training := named("attempts", d.script(`
for pid in $(cat "$d/pids"); do ! tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -q . || note "$pid lives"; done
note "$MASTER_PORT"
echo "gputrain: step=$GPUTRAIN_ATTEMPT"
meet 2 begun
for how in "" setsid; do
	$how sh -c 'trap "" TERM HUP INT; echo $$ >>"$1/pids"; while :; do sleep 600; done' sh "$d" >/dev/null 2>&1 &
done
until [ $(wc -l <"$d/pids") -ge $((4 * GPUTRAIN_ATTEMPT)) ]; do sleep 0.05; done
[ $GPUTRAIN_ATTEMPT = 4 ] || exit $((GPUTRAIN_ATTEMPT + 10 * RANK))`))
	e2etest.WriteText(t, filepath.Join(string(d), "pids"), "")
	training.Restarts = 3
	r, err := pool.Train(training)
	if err != nil {
		t.Fatal(err)
	}
	ports := map[string]string{}
	for _, line := range d.lines(t) {
		var attempt, rank, port string
		if n, _ := fmt.Sscan(line, &attempt, &rank, &port); n != 3 || strings.Contains(line, "lives") || ports[attempt] != "" && ports[attempt] != port {
			t.Error(line)
		}
		ports[attempt] = port
	}
	if len(ports) != 4 || ports["1"] == ports["2"] || ports["2"] == ports["3"] || ports["3"] == ports["4"] {
		t.Error(ports)
	}
	if len(r.Attempts) != 4 || r.Step != 4 || r.Ranks[0].Attempts != 4 {
		t.Errorf("%+v", r)
	}
	for i, e := range r.Attempts {
		if e.Number != i+1 || e.FirstStep != int64(i+1) || e.LastStep != int64(i+1) || (e.Err == nil) != (i == 3) || len(e.Nodes) != 2 || i > 0 && e.From.Before(r.Attempts[i-1].To) {
			t.Errorf("%+v", e)
		}
	}
	nothingLeft(t, pool.ID())
}

// The first failure ends all, and is the root cause. Those that had to end follow from it.
func TestFirstFailure(t *testing.T) {
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 3})
	r, err := pool.Train(named("first", d.script(`[ $RANK != 2 ] || trap 'note ended; exit 9' TERM
[ $RANK != 1 ] || echo $$ >"$d/first"
meet 3 begun
case $RANK in
0) while kill -0 "$(cat "$d/first")" 2>/dev/null; do sleep 0.05; done; echo "Connection reset by peer" >&2; exit 1 ;;
1) echo "it is broken" >&2; exit 7 ;;
esac
sleep 600 & wait`)))
	failed := failure(t, err)
	root := failed.Failures[0]
	if failed.Attempt != 1 || root.Rank != 1 || root.Node.Rank != 1 || root.Cause != gputrain.CauseExit || root.ExitCode != 7 || !strings.Contains(root.Tail, "it is broken") || root.Name != "first/1" {
		t.Errorf("%+v", root)
	}
	if len(failed.Failures) != 2 || failed.Failures[1].Cause != gputrain.CausePeer || failed.Failures[1].Rank != 0 {
		t.Errorf("%v", failed.Failures)
	}
	d.want(t, "1 2 ended")
	for i, want := range []gputrain.Cause{gputrain.CausePeer, gputrain.CauseExit, gputrain.CausePeer} {
		if te, ok := errors.AsType[*gputrain.TaskError](r.Ranks[i].Err); !ok || te.Cause != want || te.Node.Rank != i {
			t.Errorf("rank %d: %v", i, r.Ranks[i].Err)
		}
	}
	if len(r.Attempts) != 1 || r.Attempts[0].Err == nil {
		t.Errorf("%+v", r.Attempts)
	}
	nothingLeft(t, pool.ID())
	nodesWork(t, pool)
}

// Failures count against Restarts, and three attempts that get no further end it.
func TestRestarts(t *testing.T) {
	slow(t)
	for _, tt := range []struct {
		name               string
		restarts, attempts int
		script             string
		noProgress         bool
	}{
		{"none", 0, 1, `echo "gputrain: step=$GPUTRAIN_ATTEMPT"; exit 1`, false},
		{"counted", 3, 4, `echo "gputrain: step=$GPUTRAIN_ATTEMPT"; exit 1`, false},
		{"no step", 9, 3, `exit 1`, true},
		{"same step", 9, 4, `echo "gputrain: step=5"; exit 1`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pool := e2etest.Open(t, gputrain.Spec{})
			training := named("x", gputrain.Script(tt.script))
			training.Restarts = tt.restarts
			r, err := pool.Train(training)
			if failed := failure(t, err); failed.Attempt != tt.attempts || failed.Failures[0].ExitCode != 1 {
				t.Errorf("%v", err)
			}
			if len(r.Attempts) != tt.attempts || errors.Is(err, gputrain.ErrNoProgress) != tt.noProgress {
				t.Errorf("%d attempts, %v", len(r.Attempts), err)
			}
			for _, e := range r.Attempts[:tt.attempts-1] {
				if errors.Is(e.Err, gputrain.ErrNoProgress) {
					t.Error(e.Err)
				}
			}
		})
	}
}

// Task.Timeout bounds an attempt.
func TestTimeout(t *testing.T) {
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	training := named("x", d.script(`note begins; [ "$GPUTRAIN_ATTEMPT" = 2 ] || sleep 600`))
	training.Task.Timeout, training.Restarts = 6*time.Second, 1
	r, err := pool.Train(training)
	if err != nil || len(r.Attempts) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if root := failure(t, r.Attempts[0].Err).Failures[0]; root.Cause != gputrain.CauseTimeout {
		t.Errorf("%+v", root)
	}
	d.want(t, "1 0 begins", "1 1 begins", "2 0 begins", "2 1 begins")
}
