package otelgputrain

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/log/noop"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/providers/local"
)

// secret is what a task has in its environment, and prints.
const secret = "hunter2-very-secret"

// record runs a pool with tasks of each ending. with is called before it opens, and has options for it. It returns what the
// first task has printed.
func record(t *testing.T, with func(*observe.Recorder) gputrain.Option) string {
	t.Helper()
	rec, err := observe.New(observe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	opt := with(rec)
	pool, err := gputrain.Open(t.Context(), local.Config{}, gputrain.Spec{Nodes: 2, Image: gputrain.Image{Setup: []string{"echo set up"}}}, gputrain.WithStateDir(t.TempDir()), rec.Option(), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	r, err := pool.Run(gputrain.Script("echo $TRACEPARENT"))
	if err != nil {
		t.Fatal(err)
	}
	retried := gputrain.Script("[ $GPUTRAIN_ATTEMPT = 2 ]")
	retried.Retries = 1
	fails := gputrain.Script(`echo "$WORD"; echo "it is $WORD" >&2; exit 7`)
	fails.Secrets = map[string]gputrain.Secret{"WORD": secret}
	pool.Gather(retried, fails)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := pool.Upload(dir, "data"); err != nil {
		t.Error(err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(r.Stdout))
}

func TestPool(t *testing.T) {
	s := newSink()
	var e *Exporter
	printed := record(t, func(rec *observe.Recorder) gputrain.Option {
		e = Start(rec, s.Config)
		return e.Option()
	})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	checkTree(t, s.spans.GetSpans())
	for _, one := range s.spans.GetSpans() {
		if valueOf(one.Attributes, keyUnfinished) != "" {
			t.Errorf("%s %v was open at the end", one.Name, one.Attributes)
		}
	}
	for name, want := range map[string]int{"gputrain.pool": 1, "gputrain.node": 2, "gputrain.task": 3, "gputrain.attempt": 4} {
		if got := len(s.named(name)); got != want {
			t.Errorf("%d spans %s, want %d", got, name, want)
		}
	}
	if len(s.named("gputrain.phase")) == 0 {
		t.Error("there is no phase")
	}
	// TRACEPARENT names the first attempt's span.
	attempt := s.named("gputrain.attempt")[0].SpanContext
	if want := "00-" + attempt.TraceID().String() + "-" + attempt.SpanID().String() + "-01"; printed != want {
		t.Errorf("the task's TRACEPARENT is %q, want %s", printed, want)
	}
	all := strings.Join(s.texts(t), "\n")
	if strings.Contains(all, secret) {
		t.Error("a secret was exported")
	}
	if !strings.Contains(all, "it is ") {
		t.Error("the end of the failed task's output, which had the secret, was not exported at all")
	}
}

// A pool that never became ready ends its spans too.
func TestFailedOpen(t *testing.T) {
	rec, err := observe.New(observe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	s := newSink()
	e := Start(rec, s.Config)
	spec := gputrain.Spec{MaxReplacements: -1, Image: gputrain.Image{Setup: []string{"exit 4"}}}
	if _, err := gputrain.Open(t.Context(), local.Config{}, spec, gputrain.WithStateDir(t.TempDir()), rec.Option()); err == nil {
		t.Fatal("the pool has opened")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	checkTree(t, s.spans.GetSpans())
	failed := map[string]bool{}
	for _, one := range s.spans.GetSpans() {
		if valueOf(one.Attributes, keyUnfinished) != "" {
			t.Errorf("%s %v was open at the end", one.Name, one.Attributes)
		}
		failed[one.Name] = failed[one.Name] || one.Status.Code == codes.Error && valueOf(one.Attributes, keyErrorType) != ""
	}
	if !failed["gputrain.phase"] || !failed["gputrain.node"] || !failed["gputrain.pool"] {
		t.Errorf("what has failed is %v", failed)
	}
}

// A pool that ran before Start is exported too.
func TestReplay(t *testing.T) {
	var rec *observe.Recorder
	record(t, func(r *observe.Recorder) gputrain.Option {
		rec = r
		return gputrain.Options()
	})
	s := newSink()
	if err := Start(rec, s.Config).Close(); err != nil {
		t.Fatal(err)
	}
	checkTree(t, s.spans.GetSpans())
	if len(s.named("gputrain.pool")) != 1 || len(s.named("gputrain.task")) != 3 {
		t.Errorf("the spans are %v", s.spans.GetSpans())
	}
}

// The global providers are used, which do nothing by default.
func TestGlobalProviders(t *testing.T) {
	var e *Exporter
	printed := record(t, func(rec *observe.Recorder) gputrain.Option {
		e = Start(rec, Config{})
		return e.Option()
	})
	if err := e.Close(); err != nil || printed != "" {
		t.Errorf("closing: %v; TRACEPARENT is %q", err, printed)
	}
	before := otel.GetLoggerProvider()
	s := newSink()
	otel.SetLoggerProvider(s.Logger)
	defer otel.SetLoggerProvider(before)
	r := &recorded{}
	play(r)
	start(r, Config{}).Close()
	if len(s.records.all) != len(r.all) {
		t.Errorf("the global provider got %d records of %d events", len(s.records.all), len(r.all))
	}
}

// A provider that takes nothing holds up no pool: neither its events, nor its attempts, nor its end.
func TestSlowProvider(t *testing.T) {
	defer func(was time.Duration) { envPatience = was }(envPatience)
	envPatience = 100 * time.Millisecond
	s := newSink()
	free := make(chan struct{})
	s.Logger = slow{free: free}
	var e *Exporter
	record(t, func(rec *observe.Recorder) gputrain.Option {
		e = Start(rec, s.Config)
		return e.Option()
	})
	if n := len(s.named("gputrain.pool")); n != 0 {
		t.Errorf("%d pools have ended while the provider was blocked", n)
	}
	close(free)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	checkTree(t, s.spans.GetSpans())
	s.only(t, "gputrain.pool")
}

// A slow provider has loggers that block.
type slow struct {
	noop.LoggerProvider
	free chan struct{}
}

func (s slow) Logger(string, ...log.LoggerOption) log.Logger { return slowLogger{free: s.free} }

type slowLogger struct {
	noop.Logger
	free chan struct{}
}

func (s slowLogger) Enabled(context.Context, log.EnabledParameters) bool {
	<-s.free
	return false
}

// Each of very many commands has the trace context of its attempt or, if the recorder only counts it, of the pool. What is recorded
// says when a task was queued, also if that was reported when it began to run.
func TestManyCommands(t *testing.T) {
	s := newSink()
	rec, err := observe.New(observe.Config{Tasks: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	e := Start(rec, s.Config)
	pool, err := gputrain.Open(t.Context(), local.Config{}, gputrain.Spec{Concurrency: 4}, gputrain.WithStateDir(t.TempDir()), rec.Option(), e.Option())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	tasks := make([]gputrain.Task, 40)
	for i := range tasks {
		tasks[i] = gputrain.Script("sleep 0.15; echo $TRACEPARENT")
	}
	for i := range 3 { // that are counted when they begin, most likely
		tasks[1+i] = gputrain.Script("echo 'gputrain: step=1' >&2; sleep 0.5; echo $TRACEPARENT")
	}
	results, err := pool.Gather(tasks...)
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	spans := map[string]string{}
	for _, name := range []string{"gputrain.attempt", "gputrain.pool"} {
		for _, one := range s.named(name) {
			spans["00-"+one.SpanContext.TraceID().String()+"-"+one.SpanContext.SpanID().String()+"-01"] = name
		}
	}
	below, counted := map[string]int{}, 0
	for i, r := range results {
		of := spans[strings.TrimSpace(string(r.Stdout))]
		below[of]++
		if 1 <= i && i <= 3 && of == "gputrain.pool" {
			counted++
		}
	}
	// An attempt that is counted and reports a step has a span since then.
	if counted == 0 || below["gputrain.attempt"] != len(s.named("gputrain.attempt"))-counted || below["gputrain.attempt"] == 0 || below["gputrain.pool"] == 0 || below[""] > 0 {
		t.Errorf("the commands are below %v, of %d attempts", below, len(s.named("gputrain.attempt")))
	}
	waited, stepped := time.Duration(0), false
	for _, task := range rec.Run().Tasks {
		if len(task.Attempts) != 1 || task.Started.Before(task.Queued) || task.Ended.Before(task.Started) {
			t.Errorf("%+v", task)
		}
		if task.Step.N == 1 {
			stepped = true
		}
		waited = max(waited, task.Started.Sub(task.Queued))
	}
	if !stepped {
		t.Error("no step is recorded")
	}
	if waited < time.Second/2 { // the second task that is recorded starts after a second
		t.Errorf("as recorded, a task waited for %v at most", waited)
	}
}
