package training

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/trainimage"
	"github.com/gputrain/gputrain/providers/container"
)

// A cluster is a pool of containers with the programs of testdata.
type cluster struct {
	pool *gputrain.Compute

	mu     sync.Mutex
	events []gputrain.Event
}

func open(t testing.TB, nodes int, opts ...gputrain.Option) *cluster {
	t.Helper()
	trainimage.Require(t)
	c := &cluster{}
	c.pool = e2etest.OpenContainers(t, container.Config{Image: trainimage.Image}, spec(nodes), append(opts, gputrain.WithEvents(func(e gputrain.Event) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.events = append(c.events, e)
	}))...)
	return c
}

// spec is that of nodes with the programs of testdata.
func spec(nodes int) gputrain.Spec {
	return gputrain.Spec{Nodes: nodes, Image: gputrain.Image{Include: []string{"testdata"}}}
}

// program is a training of a program of testdata, which keeps checkpoints.
func program(t testing.TB, name, file string, env map[string]string) gputrain.Training {
	task := gputrain.Cmd("python3", "testdata/"+file)
	task.Name, task.Env = name, env
	task.Checkpoints = gputrain.Checkpoints{Dir: name, To: t.TempDir(), Keep: 2}
	return gputrain.Training{Task: task, ProcessesPerNode: 1}
}

// during calls f once an event has come for which wanted reports true, and waits for that.
func (c *cluster) during(t testing.TB, what string, wanted func(gputrain.Event) bool, f func()) (wait func()) {
	var done sync.WaitGroup
	done.Go(func() {
		if !e2etest.Settles(func() bool { return c.event(wanted) != nil }) {
			t.Errorf("did not happen in time: %s", what)
			return
		}
		f()
	})
	return done.Wait
}

// event returns the first event for which wanted reports true, or nil.
func (c *cluster) event(wanted func(gputrain.Event) bool) *gputrain.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.events, wanted); i >= 0 {
		e := c.events[i]
		return &e
	}
	return nil
}

// atStep matches the first step of a training's attempt that is not before n.
func atStep(name string, attempt int, n int64) func(gputrain.Event) bool {
	return func(e gputrain.Event) bool {
		return e.Kind == gputrain.EventStep && e.Name == name && e.Attempt == attempt && e.Step.N >= n
	}
}

// inState matches the event of a training's attempt that it has reached a state.
func inState(name string, attempt int, state string) func(gputrain.Event) bool {
	return func(e gputrain.Event) bool {
		return e.Kind == gputrain.EventTraining && e.Name == name && e.Attempt == attempt && e.State == state
	}
}

// train runs a training to its end, and checks that nothing of it is left on any node.
func (c *cluster) train(t testing.TB, training gputrain.Training) (gputrain.TrainResult, error) {
	t.Helper()
	result, err := c.pool.Train(training)
	for _, n := range c.pool.Nodes() {
		if n.State == gputrain.NodeReady {
			nothingLeft(t, n)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.timeline(t, training.Task.Name)
			t.Logf("%v; the last attempt has printed\n%s", err, printed(result))
		}
	})
	return result, err
}

// timeline logs what has become of a training, and of the nodes meanwhile.
func (c *cluster) timeline(t testing.TB, name string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.Name == name || e.Kind == gputrain.EventNode {
			t.Logf("%s %v: attempt %d, node %d, step %d, %s: %v", e.Time.Format("04:05.000"), e.Kind, e.Attempt, e.Node, e.Step.N, e.State, e.Err)
		}
	}
}

// nothingLeft checks that a node has no process of a training.
func nothingLeft(t testing.TB, n gputrain.Node) {
	t.Helper()
	const script = `for p in /proc/[0-9]*; do
		tr '\0' '\n' <"$p/environ" 2>/dev/null | grep -q ^GPUTRAIN_GANG= || continue
		tr '\0' ' ' <"$p/cmdline"
		echo
	done`
	if left := e2etest.Docker(t, "exec", n.ID, "sh", "-c", script); left != "" {
		t.Errorf("left on node %d: %s", n.Rank, left)
	}
}

// kill ends all processes on a node that pkill finds so.
func kill(t testing.TB, n gputrain.Node, args ...string) {
	t.Helper()
	e2etest.Docker(t, slices.Concat([]string{"exec", n.ID, "pkill", "-KILL"}, args)...)
}

var finalLoss = regexp.MustCompile(`(?m)final loss (\S+)$`)

// loss returns the final loss that the first rank has printed.
func loss(t testing.TB, result gputrain.TrainResult) string {
	t.Helper()
	for _, r := range result.Ranks {
		if found := finalLoss.FindSubmatch(r.Stdout); found != nil {
			return string(found[1])
		}
	}
	t.Errorf("no rank has printed its final loss: %s", printed(result))
	return ""
}

// printed returns what all ranks have printed.
func printed(result gputrain.TrainResult) string {
	var b strings.Builder
	for _, r := range result.Ranks {
		b.Write(r.Stdout)
		b.Write(r.Stderr)
	}
	return b.String()
}

// failuresOf returns the failures of an attempt, of which there is at least one.
func failuresOf(t testing.TB, err error) []*gputrain.TaskError {
	t.Helper()
	var failed *gputrain.TrainError
	if !errors.As(err, &failed) || len(failed.Failures) == 0 {
		t.Fatalf("got %v, want a TrainError with failures", err)
	}
	return failed.Failures
}

// A cause is the root cause that an attempt's failure must have. Node is the rank of its node in the gang.
type cause struct {
	cause      gputrain.Cause
	rank, node int
	exitCode   int
	signal     string
}

// wantRoot checks the root cause of an attempt, and that its other failures followed from it.
func wantRoot(t testing.TB, e gputrain.GangAttempt, want cause) {
	t.Helper()
	failures := failuresOf(t, e.Err)
	root := failures[0]
	if got := (cause{root.Cause, root.Rank, slices.IndexFunc(e.Nodes, func(n gputrain.Node) bool { return n.ID == root.Node.ID }), root.ExitCode, root.Signal}); got != want {
		t.Errorf("the root cause is %+v, want %+v: %v", got, want, e.Err)
	}
	for _, f := range failures[1:] {
		if f.Cause != gputrain.CausePeer {
			t.Errorf("%s has %v, want %v: %v", f.Name, f.Cause, gputrain.CausePeer, f)
		}
	}
}
