//go:build unix

package gangs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// Two gangs of two run in a pool of four at the same time. Two of three take turns, and never block each other with a part each.
func TestTwoGangs(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 4})
	for _, nodes := range []int{2, 3} {
		d := newDiary(t)
		var both sync.WaitGroup
		results := make([]gputrain.TrainResult, 2)
		for i := range 2 {
			training := named(fmt.Sprint("gang ", i, " of ", nodes), d.script(map[int]string{
				2: `: >"$d/at.$GPUTRAIN_NODE_RANK"; until [ "$(ls "$d" | grep -c '^at\.')" = 4 ]; do sleep 0.05; done`, // both at once
				3: `mkdir "$d/mine.$RANK" || exit 7; meet 3 "$GPUTRAIN_TRAINING"; sleep 0.5; rmdir "$d/mine.$RANK"`,    // never both
			}[nodes]))
			training.Nodes = nodes
			both.Go(func() {
				r, err := pool.Train(training)
				if err != nil {
					t.Error(err)
				}
				results[i] = r
			})
		}
		both.Wait()
		for _, r := range results {
			if len(r.Ranks) != nodes || len(r.Attempts) != 1 {
				t.Errorf("%+v", r)
			}
		}
	}
	nodesWork(t, pool)
}

// An elastic pool grows for a gang, and shrinks after it.
func TestElastic(t *testing.T) {
	cloud := e2etest.RealCloud(t)
	pool := openNear(t, cloud, gputrain.Spec{MaxNodes: 3, IdleTimeout: time.Second})
	training := named("x", newDiary(t).script(`meet 3 here`))
	training.Nodes = 3
	if r, err := pool.Train(training); err != nil || len(r.Ranks) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	e2etest.Until(t, "no nodes", func() bool { return len(pool.Nodes()) == 0 })
}

// A spare takes the place of a node that is lost, at its rank in the gang, and the others keep theirs.
func TestSpare(t *testing.T) {
	slow(t)
	d, to := newDiary(t), t.TempDir()
	cloud := e2etest.RealCloud(t)
	pool := openNear(t, cloud, gputrain.Spec{Nodes: 4, MaxReplacements: -1})
	training := named("x", d.script(`note "from ${GPUTRAIN_RESUME##*/}"; meet 3 begun
[ -z "$GPUTRAIN_RESUME" ] || { cat "$GPUTRAIN_RESUME/model"; exit 0; }
[ $RANK != 0 ] || save 3
while :; do sleep 0.1; done`))
	training.Nodes = 3
	training.Task.Checkpoints = gputrain.Checkpoints{To: to, Every: time.Second}
	ended := make(chan error, 1)
	var r gputrain.TrainResult
	go func() {
		var err error
		r, err = pool.Train(training)
		ended <- err
	}()
	e2etest.Until(t, "a checkpoint", func() bool { return e2etest.Exists(filepath.Join(to, "x", "step-3")) })
	lost := ""
	for _, n := range pool.Nodes() {
		if n.Rank == 1 {
			lost = n.ID
		}
	}
	if err := cloud.Vanish(lost); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || len(r.Attempts) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if !errors.Is(r.Attempts[0].Err, gputrain.ErrNodeLost) || r.Attempts[1].Resumed != "step-3" {
		t.Errorf("%v, %q", r.Attempts[0].Err, r.Attempts[1].Resumed)
	}
	for i, n := range r.Attempts[1].Nodes {
		before := r.Attempts[0].Nodes[i]
		if (before.ID == lost) == (n.ID == before.ID) {
			t.Errorf("rank %d is on %s, and was on %s", i, n.ID, before.ID)
		}
		if string(r.Ranks[i].Stdout) != "3\n" {
			t.Errorf("rank %d found %q", i, r.Ranks[i].Stdout)
		}
	}
	d.want(t, "1 0 from ", "1 1 from ", "1 2 from ", "2 0 from step-3", "2 1 from step-3", "2 2 from step-3")
}

// The parts of a checkpoint on two nodes are united on both, and Keep of them stay on either side.
func TestCheckpointsInParts(t *testing.T) {
	slow(t)
	d := newDiary(t)
	results := t.TempDir()
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2}, gputrain.WithResultsDir(results))
	training := named("parts", d.script(`cd "$GPUTRAIN_CHECKPOINTS"
[ -z "$GPUTRAIN_RESUME" ] || { cat "$GPUTRAIN_RESUME"/part.0 "$GPUTRAIN_RESUME"/part.1; ls -d step-* | tr '\n' ' '; exit 0; }
for step in 1 2 3; do
	mkdir .tmp; echo "$step.$RANK" >".tmp/part.$RANK"
	[ $RANK = 1 ] || until [ -e "$d/there.$step" ]; do sleep 0.05; done # rank 0 is the last one
	mv .tmp step-$step; [ $RANK = 0 ] || : >"$d/there.$step"
done
[ $RANK = 1 ] || exit 3
meet 2 never`))
	training.Restarts = 1
	training.Task.Checkpoints = gputrain.Checkpoints{Keep: 1, Every: time.Second}
	r, err := pool.Train(training)
	if err != nil || len(r.Attempts) != 2 || r.Attempts[1].Resumed != "step-3" {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, rank := range r.Ranks {
		if want := "3.0\n3.1\n"; !strings.HasPrefix(string(rank.Stdout), want) || !strings.Contains(string(rank.Stdout), "step-3") {
			t.Errorf("rank %d found %q", i, rank.Stdout)
		}
	}
	if r.Checkpoint != filepath.Join(results, "checkpoints", "parts", "step-3") || r.Step != 3 {
		t.Errorf("%q, step %d", r.Checkpoint, r.Step)
	}
	kept, err := os.ReadDir(filepath.Dir(r.Checkpoint))
	if names := fmt.Sprint(kept); err != nil || strings.Contains(names, "step-1") || strings.Contains(names, "step-2") {
		t.Errorf("%v are kept, %v", names, err)
	}
	for i := range 2 {
		if got := e2etest.ReadText(t, filepath.Join(r.Checkpoint, fmt.Sprint("part.", i))); got != fmt.Sprintf("3.%d\n", i) {
			t.Errorf("part %d is %q", i, got)
		}
	}
}

// A checkpoint from which two attempts have failed before their first step is set aside for the one before.
func TestBadCheckpoint(t *testing.T) {
	slow(t)
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{})
	training := named("bad", d.script(`note "from ${GPUTRAIN_RESUME##*/}"
case ${GPUTRAIN_RESUME##*/} in
step-2) exit 4 ;;
step-1) echo "gputrain: step=5"; exit 0 ;;
esac
save 1; sleep 3; save 2; exit 3`))
	training.Restarts = 5
	training.Task.Checkpoints = gputrain.Checkpoints{Keep: 2, Every: time.Second}
	r, err := pool.Train(training)
	if err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	d.want(t, "1 0 from ", "2 0 from step-2", "3 0 from step-2", "4 0 from step-1")
}

// The notice of one node's end reaches all of the gang, which starts again once the next checkpoint is here.
func TestNotice(t *testing.T) {
	slow(t)
	d, to := newDiary(t), t.TempDir()
	cloud := e2etest.RealCloud(t)
	offer := e2etest.OfferAt("here", 0.2)
	offer.Spot = true
	cloud.SetOffers(offer)
	pool := openNear(t, cloud, gputrain.Spec{Nodes: 2, Allocation: gputrain.Spot})
	training := named("n", d.script(`[ -z "$GPUTRAIN_RESUME" ] || { note "from ${GPUTRAIN_RESUME##*/}"; exit 0; }
note begins
until [ -e "$GPUTRAIN_NOTICE" ]; do sleep 0.1; done
left=$(cat "$GPUTRAIN_NOTICE"); [ "$left" -gt 0 ] || exit 9
note noticed; meet 2 noticed
[ $RANK = 1 ] || save 7
while :; do sleep 0.1; done`))
	training.Task.Checkpoints = gputrain.Checkpoints{To: to, Every: 5 * time.Second}
	ended := make(chan error, 1)
	var r gputrain.TrainResult
	go func() {
		var err error
		r, err = pool.Train(training)
		ended <- err
	}()
	d.await(t, "1 0 begins")
	d.await(t, "1 1 begins")
	if err := cloud.Preempt(pool.Nodes()[1].ID, 40*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || len(r.Attempts) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if root := failure(t, r.Attempts[0].Err).Failures[0]; root.Cause != gputrain.CauseNodeLost || !errors.Is(root, gputrain.ErrPreempted) {
		t.Errorf("%+v", root)
	}
	lines := d.lines(t)
	for _, line := range []string{"1 0 noticed", "1 1 noticed", "2 0 from step-7", "2 1 from step-7"} {
		if !slices.Contains(lines, line) {
			t.Errorf("no %q in %q", line, lines)
		}
	}
}

// What a node calls its checkpoints removes none of an earlier attempt. Steps that the attempt has printed do.
func TestCheckpointNamesRemoveNothing(t *testing.T) {
	for name, tt := range map[string]struct{ says, left string }{
		"silent": {"", "[step-10 step-9000000000000000003]"},
		"honest": {`echo "gputrain: step=9000000000000000003"`, "[step-9000000000000000003]"},
	} {
		t.Run(name, func(t *testing.T) {
			d, to := newDiary(t), t.TempDir()
			pool := e2etest.Open(t, gputrain.Spec{})
			training := named(name, d.script(tt.says+`
comes() { save $1; until [ -e "`+filepath.Join(to, name)+`/step-$1" ]; do sleep 0.1; done; }
[ $GPUTRAIN_ATTEMPT != 1 ] || { comes 10; exit 3; }
for step in 1 2 3; do comes 900000000000000000$step; done`))
			training.Restarts = 1
			training.Task.Checkpoints = gputrain.Checkpoints{To: to, Keep: 1, Every: time.Second}
			if r, err := pool.Train(training); err != nil {
				t.Fatalf("%+v, %v", r, err)
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
			if fmt.Sprint(left) != tt.left {
				t.Errorf("left are %q, want %s", left, tt.left)
			}
		})
	}
}
