//go:build unix

package gangs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// Arguments, scripts, input, folders and variables arrive as they do in other tasks, and the task's own variables win.
func TestProgram(t *testing.T) {
	d := newDiary(t)
	var shown e2etest.Shown
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2}, shown.Option())
	if _, err := pool.Broadcast(gputrain.Script("mkdir -p 'a dir'")); err != nil {
		t.Fatal(err)
	}
	odd := "it's \"odd\" $HOME `x` \\ *\n\té"
	args := named("args", gputrain.Cmd("sh", "-c", `printf '%s' "$1"; printf '%s|' "$#" "${PWD##*/}" "$MASTER_PORT" "$A" "$RANK"; cat`, "sh", odd, ""))
	args.Task.Dir, args.Task.Stdin = "a dir", []byte("in\x00put")
	args.Task.Env = map[string]string{"MASTER_PORT": "mine", "A": odd}
	r, err := pool.Train(args)
	if err != nil {
		t.Fatal(err)
	}
	for i, rank := range r.Ranks {
		if want := odd + fmt.Sprintf("2|a dir|mine|%s|%d|in\x00put", odd, i); string(rank.Stdout) != want {
			t.Errorf("rank %d: %q, not %q", i, rank.Stdout, want)
		}
	}
	script := named("script", d.script(`note "$GPUTRAIN_ATTEMPT $GPUTRAIN_TRAINING $GPUTRAIN_PROCESSES"; printf '%s\n' "`+strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(odd)+`"`))
	script.Task.Env = map[string]string{"RANK": "9"}
	if r, err = pool.Train(script); err != nil || string(r.Ranks[1].Stdout) != odd+"\n" {
		t.Errorf("%q, %v", r.Ranks[1].Stdout, err)
	}
	d.want(t, "1 9 1 script 1", "1 9 1 script 1")
	e2etest.Until(t, "the output", func() bool { return strings.Count(shown.Out.String(), "[script/") == 4 })
	for _, prefix := range []string{"[script/0] it's", "[script/1] it's"} {
		if !strings.Contains(shown.Out.String(), prefix) {
			t.Errorf("no %q in %q", prefix, shown.Out.String())
		}
	}
}

// The output files of all processes come back apart, also those of a failure.
func TestOutputs(t *testing.T) {
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	training := named("files", d.script(`echo "$GPUTRAIN_ATTEMPT $RANK" >"$GPUTRAIN_SCRATCH/mine"; meet 2 written; [ "$GPUTRAIN_ATTEMPT$RANK" != 10 ] || exit 3; [ $GPUTRAIN_ATTEMPT = 2 ] || sleep 600`))
	training.Task.Outputs, training.ProcessesPerNode, training.Restarts = []string{"mine"}, 1, 1
	r, err := pool.Train(training)
	if err != nil {
		t.Fatal(err)
	}
	for i, rank := range r.Ranks {
		if got := e2etest.ReadText(t, filepath.Join(rank.OutputDir, "mine")); got != fmt.Sprintf("2 %d\n", i) || len(rank.Outputs) != 1 || rank.Outputs[0].Attempt != 2 {
			t.Errorf("rank %d has %q, %+v", i, got, rank.Outputs)
		}
	}
	training = named("failed", d.script(`echo kept >"$GPUTRAIN_SCRATCH/mine"; meet 2 kept; exit 3`))
	training.Task.Outputs = []string{"mine"}
	r, err = pool.Train(training)
	failure(t, err)
	for i, rank := range r.Ranks {
		if got := e2etest.ReadText(t, filepath.Join(rank.OutputDir, "mine")); got != "kept\n" {
			t.Errorf("rank %d has %q", i, got)
		}
	}
}

// A secret reaches the processes, and nothing else. Where they print it, it is removed from what is shown, and from errors.
func TestSecrets(t *testing.T) {
	const secret = "s3cr3t-of-a-gang-0451"
	t.Setenv("GANG_TOKEN", secret)
	d := newDiary(t)
	nodes, state, results := t.TempDir(), t.TempDir(), t.TempDir()
	var shown e2etest.Shown
	events := make(chan string, 10000)
	pool := openLocal(t, nodes, gputrain.Spec{Nodes: 2}, shown.Option(), gputrain.WithStateDir(state), gputrain.WithResultsDir(results),
		gputrain.WithEvents(func(ev gputrain.Event) { events <- fmt.Sprintf("%+v %v", ev, ev.Err) }))
	wantNone := func(what, text string) {
		t.Helper()
		if strings.Contains(text, secret) {
			t.Errorf("the secret is in %s: %q", what, text)
		}
	}
	for _, prints := range []bool{false, true} {
		name := map[bool]string{false: "quiet", true: "prints"}[prints]
		training := named(name, d.script(`[ "$TOKEN" = s3cr3t-of-a"-gang-0451" ] || exit 9
note knows; cat /proc/[0-9]*/cmdline >"$d/args.$RANK" 2>/dev/null; echo "gputrain: step=$GPUTRAIN_ATTEMPT"
`+map[bool]string{true: `echo "it is $TOKEN"; echo "broken: $TOKEN" >&2`}[prints]+`
meet 2 $GPUTRAIN_TRAINING; exit 3`))
		training.Check = d.script(`[ "$TOKEN" = s3cr3t-of-a"-gang-0451" ]`)
		training.Restarts = 1
		for _, task := range []*gputrain.Task{&training.Task, &training.Check} {
			task.Secrets = map[string]gputrain.Secret{"TOKEN": "env://GANG_TOKEN"}
		}
		_, err := pool.Train(training)
		failed := failure(t, err)
		wantNone("the error", fmt.Sprintf("%v %+v", err, failed.Failures[0]))
		if prints != strings.Contains(failed.Failures[0].Tail, "[redacted]") {
			t.Errorf("%+v", failed.Failures[0])
		}
		for _, dir := range []string{nodes, state, results, string(d)} {
			for _, name := range e2etest.Tree(dir) {
				if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil && !prints {
					if bytes.Contains(b, []byte(secret)) {
						t.Errorf("the secret is in %s", filepath.Join(dir, name))
					}
				}
			}
		}
	}
	if n := strings.Count(strings.Join(d.lines(t), ""), "knows"); n != 8 {
		t.Errorf("%d processes knew it", n)
	}
	wantNone("the output", shown.Out.String()+shown.Err.String())
	for len(events) > 0 {
		wantNone("an event", <-events)
	}
}

// A check runs on all nodes before the first attempt, and not again on nodes that have passed.
func TestCheckPasses(t *testing.T) {
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	training := named("x", d.script(`note runs; meet 2 ran; echo gputrain: step=1; exit $((GPUTRAIN_ATTEMPT == 1 ? 3 : 0))`))
	training.Check, training.Restarts = d.script(`note "checked by $WORLD_SIZE of $GPUTRAIN_TRAINING"; [ -z "$(grep runs "$d/diary")" ]`), 1
	if _, err := pool.Train(training); err != nil {
		t.Error(err)
	}
	d.want(t, "1 0 checked by 2 of x", "1 1 checked by 2 of x", "1 0 runs", "1 1 runs", "2 0 runs", "2 1 runs")
}

// The one node of four that does not pass is found, and another one takes its rank.
func TestCheckFindsTheNode(t *testing.T) {
	d := newDiary(t)
	cloud := e2etest.RealCloud(t)
	pool := openNear(t, cloud, gputrain.Spec{Nodes: 4})
	bad := pool.Nodes()[2]
	if _, err := pool.Run(onNode(gputrain.Script("echo bad >bad"), 2)); err != nil {
		t.Fatal(err)
	}
	training := named("x", d.script(`note "on $GPUTRAIN_NODE_RANK"; [ ! -e bad ]`))
	training.Check = gputrain.Script(`[ ! -e bad ] || { echo "this one is bad" >&2; exit 4; }; sleep 1`)
	r, err := pool.Train(training)
	if err != nil || len(r.Attempts) != 2 || len(r.Ranks) != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	root := failure(t, r.Attempts[0].Err).Failures
	if len(root) != 1 || root[0].Cause != gputrain.CauseNeverStarted || root[0].Node.ID != bad.ID || !strings.Contains(root[0].Tail, "this one is bad") {
		t.Errorf("%v", root)
	}
	for i, n := range r.Attempts[1].Nodes {
		if n.ID == bad.ID || (i != 2) != (n.ID == r.Attempts[0].Nodes[i].ID) {
			t.Errorf("rank %d is on %s, and was on %s", i, n.ID, r.Attempts[0].Nodes[i].ID)
		}
	}
	nothingLeft(t, pool.ID())
	nodesWork(t, pool)
}

// A check of which one process only waits is that process's node's.
func TestCheckWaits(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	training := named("x", gputrain.Cmd("true"))
	training.Check = gputrain.Script(`[ $RANK = 1 ] && exec sleep 600; echo "RuntimeError: Timed out waiting 15000ms" >&2; exit 1`)
	r, err := pool.Train(training)
	if err == nil || len(r.Attempts) == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if root := failure(t, r.Attempts[0].Err).Failures[0]; root.Cause != gputrain.CauseNeverStarted || root.Node.ID != r.Attempts[0].Nodes[1].ID {
		t.Errorf("%+v", root)
	}
}

// A check that no node passes ends the training.
func TestCheckFailsEverywhere(t *testing.T) {
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 3})
	training := named("x", d.script("note runs"))
	training.Check, training.Restarts = gputrain.Script("echo no >&2; exit 5"), 9
	r, err := pool.Train(training)
	if err == nil || len(r.Attempts) > 3 {
		t.Errorf("%+v, %v", r, err)
	}
	if root := failure(t, err).Failures[0]; root.Cause != gputrain.CauseNeverStarted || !strings.Contains(err.Error(), "Check") || root.ExitCode != 5 {
		t.Errorf("%+v", root)
	}
	d.want(t, "")
	nothingLeft(t, pool.ID())
}

// A gang that says nothing is ended, and its stacks are in the failure.
func TestStartTimeout(t *testing.T) {
	slow(t)
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	training := named("x", d.script(`[ $GPUTRAIN_ATTEMPT = 2 ] || sleep 600`))
	training.StartTimeout, training.Restarts = 10*time.Second, 1
	r, err := pool.Train(training)
	if err != nil || len(r.Attempts) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if root := failure(t, r.Attempts[0].Err).Failures[0]; root.Cause != gputrain.CauseStalled || !strings.Contains(root.Stack, "sleep") {
		t.Errorf("%+v", root)
	}
}

// A gang whose steps end is ended although it prints, and the rank that is behind is the root cause.
func TestStallTimeout(t *testing.T) {
	slow(t)
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	training := named("x", d.script(`echo "gputrain: step=1"; meet 2 first; [ $GPUTRAIN_ATTEMPT = 1 ] || exit 0
[ $RANK = 1 ] || echo "gputrain: step=2"
while :; do echo waiting; sleep 0.3; done`))
	training.StallTimeout, training.Restarts = 10*time.Second, 1
	r, err := pool.Train(training)
	if err != nil || len(r.Attempts) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	root := failure(t, r.Attempts[0].Err).Failures[0]
	if root.Cause != gputrain.CauseStalled || root.Rank != 1 || root.Step != 1 || !strings.Contains(root.Stack, "sh") {
		t.Errorf("%+v", root)
	}
	if e := r.Attempts[0]; e.FirstStep != 1 || e.LastStep != 2 || r.Step != 2 {
		t.Errorf("%+v", r)
	}
}

// A process that runs on after another one has ended with success is a stall.
func TestOneRunsOn(t *testing.T) {
	slow(t)
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2})
	training := named("x", d.script(`[ $RANK = 1 ] || exit 0; while :; do echo on; sleep 0.2; done`))
	training.StallTimeout = 2 * time.Second
	_, err := pool.Train(training)
	if root := failure(t, err).Failures[0]; root.Cause != gputrain.CauseStalled || root.Rank != 1 {
		t.Errorf("%+v", root)
	}
}

// The lease is held while a training that asks for it runs.
func TestHoldsLease(t *testing.T) {
	d := newDiary(t)
	pool := openNear(t, e2etest.RealCloud(t), gputrain.Spec{Nodes: 2})
	training := named("x", d.script(`note begins; await go`))
	training.Task.HoldsLease = true
	ended := make(chan error, 1)
	go func() {
		_, err := pool.Train(training)
		ended <- err
	}()
	d.await(t, "1 0 begins")
	if pool.Cost().Bounded {
		t.Error("it could cost more")
	}
	d.allow(t, "go")
	if err := <-ended; err != nil || !pool.Cost().Bounded {
		t.Errorf("%+v, %v", pool.Cost(), err)
	}
}

// onNode returns a task for the node of a rank.
func onNode(task gputrain.Task, rank int) gputrain.Task {
	task.Target = gputrain.OnRank(rank)
	return task
}

// The nodes of a gang run no other task, and the others do. A Broadcast waits for it.
func TestTasksBeside(t *testing.T) {
	d := newDiary(t)
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 3, Concurrency: 2})
	training := named("x", d.script(`note begins; await go`))
	training.Nodes, training.ProcessesPerNode = 2, 1
	ended := make(chan gputrain.TrainResult, 1)
	go func() {
		r, err := pool.Train(training)
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	d.await(t, "1 1 begins")
	where := map[int]bool{}
	for range 5 {
		r, err := pool.Run(gputrain.Cmd("true"))
		if err != nil {
			t.Fatal(err)
		}
		where[r.Node.Rank] = true
	}
	all := make(chan error, 1)
	go func() {
		_, err := pool.Broadcast(d.script(`note "all on $GPUTRAIN_NODE_RANK"`))
		all <- err
	}()
	d.allow(t, "go")
	r := <-ended
	if err := <-all; err != nil {
		t.Error(err)
	}
	gang := []int{r.Ranks[0].Node.Rank, r.Ranks[1].Node.Rank}
	if len(where) != 1 || where[gang[0]] || where[gang[1]] || slices.Contains(gang, -1) {
		t.Errorf("tasks ran on %v beside a gang on %v", where, gang)
	}
}
