package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/providers/local"
)

// secret is in the environment of a task, which prints it.
const secret = "hunter2-very-secret"

// record runs a pool with tasks of each ending, and returns its recorder, which is closed, and the file.
func record(t *testing.T) (*observe.Recorder, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "runs", "a.events")
	rec, err := observe.New(observe.Config{File: file, Usage: time.Second, Lines: 3})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := gputrain.Open(t.Context(), local.Config{}, gputrain.Spec{Nodes: 2, Concurrency: 2, Image: gputrain.Image{Setup: []string{"echo set up"}}},
		gputrain.WithName("rec"), gputrain.WithStateDir(t.TempDir()), rec.Option())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	retried := gputrain.Script(`echo "gputrain: step=$GPUTRAIN_ATTEMPT/2 loss=nan"; [ $GPUTRAIN_ATTEMPT = 2 ]`)
	retried.Name, retried.Retries = "retried 1", 1
	fails := gputrain.Script(`for i in 1 2 3 4 5; do echo line $i >&2; done; echo "$WORD" >&2; exit 7`)
	fails.Name, fails.Secrets = "fails", map[string]gputrain.Secret{"WORD": secret}
	gate := filepath.Join(t.TempDir(), "go")
	slow := gputrain.Script(`until [ -e '` + gate + `' ]; do sleep 0.1; done; echo "gputrain: step=2/4"; sleep 0.2`)
	slow.Name = "slow"
	gathered := make(chan bool)
	go func() {
		defer close(gathered)
		pool.Gather(gputrain.Script("echo well"), retried, fails, slow)
	}()
	hasNoSample := func(n observe.Node) bool { return n.Host == nil || len(n.Load) == 0 }
	for end := time.Now().Add(time.Minute); slices.ContainsFunc(rec.Run().Nodes, hasNoSample) && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-gathered
	if err := pool.Upload("testdata", "data"); err != nil && !os.IsNotExist(err) {
		t.Log(err)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	return rec, file
}

// What was recorded is the same live, from the file, and from its parts.
func TestRecorder(t *testing.T) {
	rec, file := record(t)
	run := rec.Run()
	if len(run.Pools) != 1 || run.Pools[0].State != "closed" || run.Pools[0].Spec == nil || run.Pools[0].Spec.Nodes != 2 || run.Pools[0].ReadyAt.IsZero() {
		t.Errorf("pools: %+v", run.Pools)
	}
	if c := run.Counts; c.Done != 3 || c.Failed != 1 || c.Retries != 1 || c.Running+c.Waiting != 0 || c.Gone != 2 || c.Tasks() != 4 {
		t.Errorf("counts: %+v", c)
	}
	if run.HourlyUSD != 0 || run.SpentUSD != 0 || !run.Bounded {
		t.Errorf("$%v, $%v/h, %v", run.SpentUSD, run.HourlyUSD, run.Bounded)
	}
	for _, n := range run.Nodes {
		if n.State != "terminated" || n.ReadyAt.Before(n.Launched) || n.Gone.IsZero() || n.Ended == 0 || len(n.Tasks) > 0 || n.Provider != "local" {
			t.Errorf("node: %+v", n)
		}
		if n.Host == nil || n.Host.MemoryTotalGiB <= 0 || len(n.Load) == 0 {
			t.Errorf("node %d has no sample: %+v, %v", n.Rank, n.Host, n.Load)
		}
	}
	tasks := map[string]observe.Task{}
	for _, task := range run.Tasks {
		tasks[task.Name] = task
	}
	if r := tasks["retried 1"]; len(r.Attempts) != 2 || r.Attempts[0].ExitCode != 1 || r.Attempts[0].Cause != "exit" || r.Attempts[1].Cause != "" || r.Step.Of != 2 || r.State != "done" {
		t.Errorf("retried: %+v", r)
	}
	f := tasks["fails"]
	if f.State != "failed" || f.ExitCode != 7 || f.Cause != "exit" || !strings.Contains(f.Err, "exit code 7") || len(f.Lines) != 3 || f.Lines[1].Text != "line 5" || !f.Lines[1].Stderr {
		t.Errorf("fails: %+v", f)
	}
	if len(run.Failures) != 2 || !run.Failures[0].Retried && !run.Failures[1].Retried {
		t.Errorf("failures: %+v", run.Failures)
	}
	for _, f := range run.Failures {
		if f.Name == "fails" && (!strings.Contains(f.Tail, "line 5") || f.Kind != "task" || f.Node == "") {
			t.Errorf("failure: %+v", f)
		}
	}
	if len(run.Phases) == 0 || run.Phases[0].State != "done" || len(run.Phases[0].Lines) == 0 {
		t.Errorf("phases: %+v", run.Phases)
	}
	if len(run.Offers) == 0 || run.Offers[0].State != "taken" {
		t.Errorf("offers: %+v", run.Offers)
	}
	names := map[string]observe.Group{}
	for _, g := range run.Groups {
		names[g.Name] = g
	}
	if g := names["retried"]; g.Done != 1 || g.Attempts != 2 {
		t.Errorf("groups: %+v", run.Groups)
	}

	text, err := os.ReadFile(file)
	if err != nil || bytes.Contains(text, []byte(secret)) {
		t.Fatalf("%v, or the file has the secret", err)
	}
	if info, _ := os.Stat(file); info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v", info.Mode())
	}
	again, err := observe.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	for n := range run.Nodes { // the samples of three lines are of other times
		if len(again.Nodes[n].Load) != len(run.Nodes[n].Load) {
			t.Errorf("node %d has %d samples, and %d in the file", n, len(run.Nodes[n].Load), len(again.Nodes[n].Load))
		}
	}
	if again.Counts != run.Counts || again.Seq != run.Seq || len(again.Failures) != len(run.Failures) || !reflect.DeepEqual(again.Failures[0].Tail, run.Failures[0].Tail) || again.Pools[0].Spec.Concurrency != 2 {
		t.Errorf("the file says %+v", again)
	}
	for cut := len(text) - 1; cut >= 0; cut -= max(len(text)/200, 1) { // as of a program that was killed
		if err := os.WriteFile(file+".cut", text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if part, err := observe.Read(file + ".cut"); err != nil || part.Seq >= run.Seq {
			t.Fatalf("%d bytes: %v, to %d of %d", cut, err, part.Seq, run.Seq)
		}
	}

	// From any number on, the entries come without a gap, and each is the same after JSON.
	last := int64(run.Seq / 2)
	for e := range rec.Events(context.Background(), last) {
		if e.Seq != last+1 {
			t.Fatalf("after %d comes %d", last, e.Seq)
		}
		last = e.Seq
		first, _ := json.Marshal(e)
		var read observe.Entry
		if err := json.Unmarshal(first, &read); err != nil {
			t.Fatalf("%v: %s", err, first)
		}
		if second, _ := json.Marshal(read); !bytes.Equal(first, second) {
			t.Errorf("it is\n%s\nand then\n%s", first, second)
		}
	}
	if last != run.Seq {
		t.Errorf("the last is %d of %d", last, run.Seq)
	}
}

// The events of a pool are numbered without a gap, and taken by several functions alike; a slow one holds nobody up.
func TestSeveralTakers(t *testing.T) {
	var first, second []int64
	release := make(chan struct{})
	pool, err := gputrain.Open(t.Context(), local.Config{}, gputrain.Spec{}, gputrain.WithStateDir(t.TempDir()), gputrain.Options(
		gputrain.WithEvents(func(e gputrain.Event) { first = append(first, e.Seq) }),
		gputrain.WithEvents(func(e gputrain.Event) { <-release; second = append(second, e.Seq) }),
	))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Run(gputrain.Script("true")); err != nil {
		t.Fatal(err)
	}
	close(release)
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(first, second) || len(first) < 8 {
		t.Errorf("%v and %v", first, second)
	}
	for i, seq := range first {
		if seq != int64(i+1) {
			t.Fatalf("event %d has the number %d", i, seq)
		}
	}
}

// What a recorder cannot do is said at once.
func TestConfigThatIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]observe.Config{"lines": {Lines: -1}, "usage": {Usage: time.Millisecond}, "folder": {File: filepath.Join(file, "x")}} {
		if _, err := observe.New(c); err == nil || !strings.HasPrefix(err.Error(), "observe: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if rec, err := observe.New(observe.Config{File: file}); err != nil || rec.Close() != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file + ".old"); err != nil {
		t.Errorf("what was there is gone: %v", err)
	}
	if _, err := observe.Read(file + ".none"); err == nil {
		t.Error("a file that is not there was read")
	}
	if err := os.WriteFile(file, []byte("{\"seq\":1}\nnot JSON\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := observe.Read(file); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %v", err)
	}
}

// A pool that cannot be opened says why.
func TestPoolThatDoesNotOpen(t *testing.T) {
	rec, err := observe.New(observe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = gputrain.Open(t.Context(), local.Config{}, gputrain.Spec{Image: gputrain.Image{Setup: []string{"echo why >&2; exit 5"}}}, gputrain.WithStateDir(t.TempDir()), rec.Option())
	if err == nil {
		t.Fatal("it opened")
	}
	run := rec.Run()
	if p := run.Pools[0]; p.State != "closed" || !strings.Contains(p.Err, "exit code 5") || !p.ReadyAt.IsZero() {
		t.Errorf("the pool: %+v", p)
	}
	if !slices.ContainsFunc(run.Failures, func(f observe.Failure) bool { return f.Kind == "pool" && strings.Contains(f.Err, "exit code 5") }) {
		t.Errorf("failures: %+v", run.Failures)
	}
}

// Of very many tasks only some are recorded one by one, and those that fail. All are counted, also by the file.
func TestManyTasks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events")
	rec, err := observe.New(observe.Config{File: file, Tasks: 1})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := gputrain.Open(t.Context(), local.Config{}, gputrain.Spec{Nodes: 2, Concurrency: 4}, gputrain.WithStateDir(t.TempDir()), rec.Option())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	const n = 60
	tasks := make([]gputrain.Task, n)
	for i := range tasks {
		tasks[i] = gputrain.Cmd("true")
		tasks[i].Name = fmt.Sprintf("many %d", i)
	}
	tasks[n-1] = gputrain.Cmd("false")
	tasks[n-1].Name = "fails"
	pool.Gather(tasks...)
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	past, err := observe.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]observe.Run{"live": rec.Run(), "from the file": past} {
		if c := run.Counts; c.Done != n-1 || c.Failed != 1 || c.Waiting != 0 || c.Running != 0 || c.Busy != 0 {
			t.Errorf("%s: %+v", name, c)
		}
		if len(run.Tasks) >= n/2 || !slices.ContainsFunc(run.Tasks, func(one observe.Task) bool { return one.Name == "fails" && one.ExitCode == 1 }) {
			t.Errorf("%s: %d tasks are recorded one by one", name, len(run.Tasks))
		}
		ended, busy := 0, time.Duration(0)
		for _, node := range run.Nodes {
			ended += node.Ended
			busy += node.BusyTime
		}
		i := slices.IndexFunc(run.Groups, func(g observe.Group) bool { return g.Name == "many" })
		if i < 0 || run.Groups[i].Done != n-1 || run.Groups[i].Attempts != n-1 || run.Groups[i].Time <= 0 || ended < n-1 || busy <= 0 {
			t.Errorf("%s: %+v, on the nodes %d in %v", name, run.Groups, ended, busy)
		}
	}
}
