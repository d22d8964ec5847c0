//go:build unix

package gangs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// Of processes that hang the one is named that the others wait for, by what the kernel tells of them, and not the first.
func TestStallNamesTheOddOne(t *testing.T) {
	slow(t)
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 3})
	training := named("x", d.script(`mkfifo "$d/never.$RANK"; echo "gputrain: step=1"; meet 3 first
[ $RANK = 1 ] && exec sleep 600
read -r x <"$d/never.$RANK"`))
	training.StallTimeout, training.ProcessesPerNode = time.Second, 1
	_, err := pool.Train(training)
	failed := failure(t, err)
	root := failed.Failures[0]
	if root.Cause != gputrain.CauseStalled || root.Rank != 1 || root.Node.Rank != 1 || !strings.Contains(root.Err.Error(), "nanosleep") {
		t.Errorf("%+v", root)
	}
	for _, f := range failed.Failures[1:] {
		if f.Cause != gputrain.CausePeer {
			t.Errorf("%+v", f)
		}
	}
}

// If nothing tells which process the others wait for, none is named, and all stacks are there.
func TestStallOfNobody(t *testing.T) {
	slow(t)
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	training := named("x", d.script(`echo "gputrain: step=1"; meet 2 first; exec sleep 600`))
	training.StallTimeout, training.ProcessesPerNode = time.Second, 1
	_, err := pool.Train(training)
	failed := failure(t, err)
	root := failed.Failures[0]
	if root.Cause != gputrain.CauseStalled || !errors.Is(err, gputrain.ErrStalled) || root.Rank != -1 || root.Node.Rank != -1 || root.Index != -1 {
		t.Errorf("%+v", root)
	}
	if text := err.Error(); strings.Contains(text, "followed from") || !strings.Contains(text, "nothing tells which process") || strings.Contains(text, " on node -1") ||
		!strings.Contains(text, "x/0 on node 0") || !strings.Contains(text, "x/1 on node 1") || !strings.Contains(text, "nanosleep") {
		t.Error(text)
	}
	if len(failed.Failures) != 3 {
		t.Errorf("%v", failed.Failures)
	}
	for _, f := range failed.Failures[1:] {
		if f.Cause != gputrain.CauseStalled || f.Stack == "" {
			t.Errorf("%+v", f)
		}
	}
}

// A process that ends with success while the others wait for it is the cause of what follows.
func TestEndsEarly(t *testing.T) {
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 3})
	training := named("cut", d.script(`meet 3 first; [ $RANK = 1 ] && exit 0
sleep 1; echo "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4711" >&2; exit 1`))
	training.ProcessesPerNode = 1
	_, err := pool.Train(training)
	failed := failure(t, err)
	if root := failed.Failures[0]; root.Rank != 1 || root.ExitCode != 0 || root.Cause != gputrain.CauseExit || !strings.Contains(err.Error(), "ended with exit code 0") {
		t.Errorf("%+v", root)
	}
	if !strings.Contains(err.Error(), "2 other failures followed from it") {
		t.Error(err)
	}
}

// The loss of a node is one failure, which has no rank.
func TestLossIsOneFailure(t *testing.T) {
	d := newDiary(t)
	cloud := e2etest.RealCloud(t)
	pool := openNear(t, cloud, gputrain.Spec{Nodes: 2})
	training := named("x", d.script(`note begins; [ $GPUTRAIN_ATTEMPT = 2 ] || sleep 600`))
	training.ProcessesPerNode = 2
	ended := make(chan error, 1)
	var r gputrain.TrainResult
	go func() {
		var err error
		r, err = pool.Train(training)
		ended <- err
	}()
	for _, rank := range []string{"0", "1", "2", "3"} {
		d.await(t, "1 "+rank+" begins")
	}
	if err := cloud.Preempt(pool.Nodes()[1].ID, 0); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || len(r.Attempts) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	all := failure(t, r.Attempts[0].Err).Failures
	if len(all) != 1 || all[0].Cause != gputrain.CauseNodeLost || all[0].Rank != -1 || all[0].Index != -1 || all[0].Node.Rank != 1 {
		t.Errorf("%+v", all)
	}
}

// A program that runs a launcher of its own, which makes a world of each process, is ended with that error.
func TestWorldsOfTheirOwn(t *testing.T) {
	slow(t)
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	training := named("x", d.script(`note runs; RANK=0 WORLD_SIZE=1 exec sleep 600`))
	training.ProcessesPerNode, training.Restarts = 1, 5
	r, err := pool.Train(training)
	root := failure(t, err).Failures[0]
	if !errors.Is(err, gputrain.ErrInvalid) || len(r.Attempts) != 1 || !strings.Contains(err.Error(), "is in a world of 1") || !strings.Contains(err.Error(), "Torchrun") || root.Rank != -1 {
		t.Errorf("%+v, %v", r.Attempts, err)
	}
	nothingLeft(t, pool.ID())
}
