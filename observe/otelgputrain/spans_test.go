package otelgputrain

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/gputrain/gputrain"
)

// exported plays a pool into a sink.
func exported(t *testing.T) *sink {
	t.Helper()
	r, s := &recorded{}, newSink()
	play(r)
	if err := start(r, s.Config).Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// above has the name of the span that is the parent of each span.
var above = map[string][]string{
	"gputrain.node": {"gputrain.pool"}, "gputrain.phase": {"gputrain.node", "gputrain.pool"}, "gputrain.task": {"gputrain.pool"},
	"gputrain.attempt": {"gputrain.task"}, "gputrain.transfer": {"gputrain.pool"},
}

// checkTree checks that spans nest in kind and time, and that all have a parent but pools.
func checkTree(t *testing.T, spans tracetest.SpanStubs) {
	t.Helper()
	by := map[trace.SpanID]tracetest.SpanStub{}
	for _, s := range spans {
		by[s.SpanContext.SpanID()] = s
	}
	for _, s := range spans {
		if s.EndTime.Before(s.StartTime) {
			t.Errorf("%s ends %v before it begins", s.Name, s.StartTime.Sub(s.EndTime))
		}
		if s.Name == "gputrain.pool" {
			continue
		}
		parent, ok := by[s.Parent.SpanID()]
		if !ok || !strings.Contains(strings.Join(above[s.Name], " "), parent.Name) {
			t.Errorf("%s is below %q", s.Name, parent.Name)
			continue
		}
		if s.StartTime.Before(parent.StartTime) || s.EndTime.After(parent.EndTime) {
			t.Errorf("%s from %v to %v is not within its %s from %v to %v", s.Name, s.StartTime, s.EndTime, parent.Name, parent.StartTime, parent.EndTime)
		}
		if s.SpanContext.TraceID() != parent.SpanContext.TraceID() {
			t.Errorf("%s is in another trace", s.Name)
		}
	}
}

func TestSpans(t *testing.T) {
	s := exported(t)
	checkTree(t, s.spans.GetSpans())
	counts := map[string]int{}
	for _, one := range s.spans.GetSpans() {
		counts[one.Name]++
		if valueOf(one.Attributes, keyPool) != "pool-1" {
			t.Errorf("%s has no pool: %v", one.Name, one.Attributes)
		}
	}
	for name, want := range map[string]int{"gputrain.pool": 1, "gputrain.node": 3, "gputrain.phase": 5, "gputrain.task": 4, "gputrain.attempt": 4, "gputrain.transfer": 2} {
		if counts[name] != want {
			t.Errorf("%d spans %s, want %d", counts[name], name, want)
		}
	}
	pool := s.only(t, "gputrain.pool")
	if !pool.StartTime.Equal(when(0)) || !pool.EndTime.Equal(when(22)) || valueOf(pool.Attributes, keyCost) != "42" {
		t.Errorf("the pool's span is %v to %v with %v", pool.StartTime, pool.EndTime, pool.Attributes)
	}
}

// A row says what a span must be. Times are in seconds.
type row struct {
	name, key, value string // which span: by an attribute
	from, to         float64
	status           codes.Code
	attributes       map[string]string
	events           string
}

func TestSpanOfEachKind(t *testing.T) {
	s := exported(t)
	place := map[string]string{keyProvider: "acme", keyRegion: "mars", keyHostType: "big", keyMarket: "spot"}
	with := func(more map[string]string) map[string]string {
		for k, v := range place {
			more[k] = v
		}
		return more
	}
	for _, want := range []row{
		{"gputrain.node", keyHost, "i-0", 1, 10, codes.Error, with(map[string]string{keyRank: "0", keyErrorType: gputrain.ErrPreempted.Error(), keyCost: "9"}), "gputrain.preemption"},
		{"gputrain.node", keyHost, "i-2", 11, 21, codes.Unset, with(map[string]string{keyRank: "0", keyCost: "10", keyUnfinished: ""}), ""},
		{"gputrain.node", keyHost, "i-1", 1, 22, codes.Unset, with(map[string]string{keyRank: "1", keyUnfinished: "true"}), ""},
		{"gputrain.phase", keyPhase, "build for linux/arm64", 0.5, 1, codes.Unset, map[string]string{keyRank: "", keyState: "done"}, ""},
		{"gputrain.task", keyTask, "a", 7, 15, codes.Unset, map[string]string{keyName: "task a", keyAttempt: "2", keyCause: "", keyCost: "5", keyExitCode: "0"}, "gputrain.retry"},
		{"gputrain.task", keyTask, "b", 7, 17, codes.Error, map[string]string{keyAttempt: "1", keyCause: "exit", keyCost: "1", keyExitCode: "3", keyErrorType: "exit"}, ""},
		{"gputrain.task", keyTask, "c", 7, 17, codes.Unset, map[string]string{keyAttempt: "", keyUnfinished: ""}, ""},
		{"gputrain.task", keyTask, "d", 7, 22, codes.Unset, map[string]string{keyUnfinished: "true"}, ""},
		{"gputrain.attempt", keyTask, "b", 16, 17, codes.Error, with(map[string]string{keyHost: "i-1", keyRank: "1", keyCause: "exit", keyExitCode: "3", keyCost: "1", keyName: "task b", keyAttempt: "1"}), ""},
		{"gputrain.attempt", keyTask, "d", 19, 22, codes.Unset, map[string]string{keyUnfinished: "true"}, ""},
		{"gputrain.attempt", keyHost, "i-0", 8, 10, codes.Error, map[string]string{keyTask: "a", keyAttempt: "1", keyCause: "node lost", keyExitCode: "", keyCost: "2"}, ""},
		{"gputrain.attempt", keyHost, "i-2", 13, 15, codes.Unset, map[string]string{keyTask: "a", keyAttempt: "2", keyCost: "3"}, ""},
		{"gputrain.transfer", keyTask, "a", 13.5, 15, codes.Unset, map[string]string{keyDirection: "receive", keyBytes: "100", keyPath: "outputs"}, ""},
		{"gputrain.transfer", keyPath, "data", 17, 19, codes.Error, map[string]string{keyDirection: "transmit", keyBytes: "8", keyHost: "i-1"}, ""},
	} {
		found := 0
		for _, one := range s.named(want.name) {
			if valueOf(one.Attributes, want.key) != want.value {
				continue
			}
			found++
			check(t, one, want)
		}
		if found != 1 {
			t.Errorf("%d spans %s with %s %s, want one", found, want.name, want.key, want.value)
		}
	}
}

func check(t *testing.T, got tracetest.SpanStub, want row) {
	t.Helper()
	what := want.name + " " + want.value
	if !got.StartTime.Equal(when(want.from)) || !got.EndTime.Equal(when(want.to)) {
		t.Errorf("%s is from %v to %v", what, got.StartTime.Sub(when(0)), got.EndTime.Sub(when(0)))
	}
	if got.Status.Code != want.status || (want.status == codes.Error) != (got.Status.Description != "") {
		t.Errorf("%s has status %v", what, got.Status)
	}
	for key, value := range want.attributes {
		if v := valueOf(got.Attributes, key); v != value {
			t.Errorf("%s has %s %q, want %q", what, key, v, value)
		}
	}
	var events []string
	for _, e := range got.Events {
		events = append(events, e.Name)
	}
	if strings.Join(events, " ") != want.events {
		t.Errorf("%s has events %q, want %q", what, events, want.events)
	}
}

// What is open when the exporter is closed is ended.
// The spans of a task that was counted at first begin when it did.
func TestTaskThatIsReportedLate(t *testing.T) {
	r, s := &recorded{}, newSink()
	e := start(r, s.Config)
	r.add(9, gputrain.Event{Kind: gputrain.EventTask, State: "queued", Node: -1, Task: "a", Name: "task a", Elapsed: 7 * time.Second})
	r.add(9, gputrain.Event{Kind: gputrain.EventTask, State: "started", Node: 0, At: machine(0, "i-0"), Task: "a", Name: "task a", Attempt: 1, Elapsed: 4 * time.Second})
	r.add(10, gputrain.Event{Kind: gputrain.EventTask, State: "done", Node: 0, At: machine(0, "i-0"), Task: "a", Name: "task a", Attempt: 1, Elapsed: 5 * time.Second, Ended: &gputrain.AttemptEnd{}})
	e.Close()
	if task, attempt := s.only(t, "gputrain.task"), s.only(t, "gputrain.attempt"); !task.StartTime.Equal(when(2)) || !attempt.StartTime.Equal(when(5)) {
		t.Errorf("the task begins at %v, want %v; the attempt at %v, want %v", task.StartTime, when(2), attempt.StartTime, when(5))
	}
}

func TestUnfinished(t *testing.T) {
	r, s := &recorded{}, newSink()
	r.add(0, gputrain.Event{Kind: gputrain.EventPool, State: "opening", Node: -1})
	r.add(1, gputrain.Event{Kind: gputrain.EventNode, State: "bootstrapping", Node: 0, At: machine(0, "i-0")})
	r.add(2, gputrain.Event{Kind: gputrain.EventPhase, State: "started", Phase: "apt", Node: 0, At: machine(0, "i-0")})
	r.add(3, gputrain.Event{Kind: gputrain.EventTask, State: "queued", Node: -1, Task: "a"})
	r.add(3, gputrain.Event{Kind: gputrain.EventTransfer, State: "sending", Node: 0, Path: "x", Bytes: 1})
	e := start(r, s.Config)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if n := len(s.spans.GetSpans()); n != 5 {
		t.Errorf("%d spans have ended, want 5", n)
	}
	for _, one := range s.spans.GetSpans() {
		if valueOf(one.Attributes, keyUnfinished) != "true" || one.Status.Code != codes.Unset {
			t.Errorf("%s has %v, %v", one.Name, one.Attributes, one.Status)
		}
	}
}

// A span of the caller's is the parent of the pool's, also if its context has ended.
func TestParent(t *testing.T) {
	s := newSink()
	ctx, cancel := context.WithCancel(context.Background())
	ctx, outer := s.Tracer.Tracer("test").Start(ctx, "outer")
	cancel()
	r := &recorded{}
	play(r)
	s.Parent = ctx
	start(r, s.Config).Close()
	if pool := s.only(t, "gputrain.pool"); pool.Parent.SpanID() != outer.SpanContext().SpanID() || pool.SpanContext.TraceID() != outer.SpanContext().TraceID() {
		t.Errorf("the pool's parent is %v, want %v", pool.Parent, outer.SpanContext())
	}
}

// The node of the last rank gets the rank of one that is gone, and stays one span.
func TestNodeGetsAnotherRank(t *testing.T) {
	r, s := &recorded{}, newSink()
	r.add(0, gputrain.Event{Kind: gputrain.EventNode, State: "ready", Node: 0, At: machine(0, "i-0")})
	r.add(0, gputrain.Event{Kind: gputrain.EventNode, State: "ready", Node: 1, At: machine(1, "i-1")})
	r.add(1, gputrain.Event{Kind: gputrain.EventNode, State: "terminated", Node: 0, At: machine(0, "i-0")})
	r.add(2, gputrain.Event{Kind: gputrain.EventNode, State: "ready", Node: 0, At: machine(0, "i-1")})
	r.add(3, gputrain.Event{Kind: gputrain.EventNode, State: "terminated", Node: 0, At: machine(0, "i-1")})
	start(r, s.Config).Close()
	nodes := s.named("gputrain.node")
	if len(nodes) != 2 {
		t.Fatalf("%d spans, want 2", len(nodes))
	}
	if last := nodes[1]; valueOf(last.Attributes, keyHost) != "i-1" || valueOf(last.Attributes, keyRank) != "0" || !last.EndTime.Equal(when(3)) || !last.StartTime.Equal(when(0)) {
		t.Errorf("the node that has moved is %v from %v to %v", last.Attributes, last.StartTime, last.EndTime)
	}
}

// The same, if the end of the node that had the rank is reported after that.
func TestNodeTakesARankEarly(t *testing.T) {
	r, s := &recorded{}, newSink()
	r.add(0, gputrain.Event{Kind: gputrain.EventNode, State: "ready", Node: 0, At: machine(0, "i-0")})
	r.add(0, gputrain.Event{Kind: gputrain.EventNode, State: "ready", Node: 1, At: machine(1, "i-1")})
	r.add(1, gputrain.Event{Kind: gputrain.EventNode, State: "ready", Node: 0, At: machine(0, "i-1")})
	r.add(2, gputrain.Event{Kind: gputrain.EventNode, State: "terminated", Node: 0, At: machine(0, "i-0")})
	r.add(3, gputrain.Event{Kind: gputrain.EventPhase, State: "cached", Node: 0, At: machine(0, "i-1"), Phase: "apt"})
	r.add(4, gputrain.Event{Kind: gputrain.EventNode, State: "terminated", Node: 0, At: machine(0, "i-1")})
	start(r, s.Config).Close()
	nodes := s.named("gputrain.node")
	if len(nodes) != 2 || valueOf(nodes[0].Attributes, keyHost) != "i-0" || !nodes[0].EndTime.Equal(when(2)) || valueOf(nodes[1].Attributes, keyHost) != "i-1" || !nodes[1].EndTime.Equal(when(4)) {
		t.Fatalf("the nodes are %v", nodes)
	}
	if phase := s.only(t, "gputrain.phase"); phase.Parent.SpanID() != nodes[1].SpanContext.SpanID() {
		t.Error("the phase is below the node that is gone")
	}
}

// A pool that is attached to again has a second span.
func TestAttachedPool(t *testing.T) {
	r, s := &recorded{}, newSink()
	for i, state := range []string{"opening", "detached", "attaching", "closed"} {
		r.add(float64(i), gputrain.Event{Kind: gputrain.EventPool, State: state, Node: -1})
	}
	start(r, s.Config).Close()
	pools := s.named("gputrain.pool")
	if len(pools) != 2 || !pools[0].EndTime.Equal(when(1)) || !pools[1].StartTime.Equal(when(2)) {
		t.Errorf("the spans are %v", pools)
	}
}

// Odd events do no harm.
func TestOddEvents(t *testing.T) {
	r, s := &recorded{}, newSink()
	for kind := gputrain.EventPool; kind <= gputrain.EventTrouble+1; kind++ {
		for i, state := range []string{"", "started", "done", "failed", "lost", "notice", planted} {
			r.add(float64(i), gputrain.Event{Kind: kind, State: state, Node: i - 2, Elapsed: -time.Hour, Path: planted, Name: planted, Attempt: -i})
		}
	}
	if err := start(r, s.Config).Close(); err != nil {
		t.Error(err)
	}
	if got := len(s.records.all); got != len(r.all) {
		t.Errorf("%d records of %d events", got, len(r.all))
	}
	checkTexts(t, s)
}

// checkTexts checks that nothing that was exported has characters that control a terminal, and that all is UTF-8.
func checkTexts(t *testing.T, s *sink) {
	t.Helper()
	for _, text := range s.texts(t) {
		if strings.ContainsAny(text, "\x1b\x00") || !utf8.ValidString(text) {
			t.Errorf("%q was exported", text)
		}
	}
}

func TestTextsArePrintable(t *testing.T) {
	s := exported(t)
	checkTexts(t, s)
	if all := strings.Join(s.texts(t), "\n"); !strings.Contains(all, "boom") {
		t.Error("the errors were not exported at all")
	}
}
