package functions

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// A function that is registered after Init is refused when it is called. Workers that start later
// serve all other functions.
func TestLateFunctionIsRefusedAlone(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	late := gputrain.Func("register/late", func(_ context.Context, x int) (int, error) { return x, nil })
	generator := gputrain.GeneratorFunc("register/late-generator", func(context.Context, int, func(int) bool) error { return nil })
	consumer := gputrain.ConsumerFunc("register/late-consumer", func(context.Context, iter.Seq[int]) (int, error) { return 0, nil })
	pipe := gputrain.PipeFunc("register/late-pipe", func(context.Context, iter.Seq[int], func(int) bool) error { return nil })
	again := gputrain.Func("functions/doubles", func(_ context.Context, x int) (int, error) { return 3 * x, nil })

	if out, err := doubles.Run(pool, 4); out != 8 || err != nil { // starts the worker
		t.Fatalf("another function: %v, %v", out, err)
	}
	none := func(func(int) bool) {}
	errs := map[string]error{}
	_, errs[late.Name()] = late.Run(pool, 1)
	_, errs[again.Name()] = again.Run(pool, 1)
	_, errs[consumer.Name()] = consumer.Run(pool, none)
	for _, errs[generator.Name()] = range generator.Run(pool, 1) {
	}
	for _, errs[pipe.Name()] = range pipe.Run(pool, none) {
	}
	for name, err := range errs {
		for _, says := range []string{name, "register_test.go:", "package level, before Init"} {
			if err == nil || !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: err = %v, which does not contain %q", name, err, says)
			}
		}
	}
	if results, err := late.Gather(pool, 1, 2); len(results) > 0 || !errors.Is(err, gputrain.ErrInvalid) {
		t.Errorf("Gather: %v, %v", results, err)
	}
	if out, err := doubles.Run(pool, 5); out != 10 || err != nil {
		t.Errorf("afterwards: %v, %v", out, err)
	}
}

// taskEvents collects the names of the tasks in events.
type taskEvents struct {
	mu   sync.Mutex
	told []string
}

func (e *taskEvents) add(event gputrain.Event) {
	if event.Kind == gputrain.EventTask {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.told = append(e.told, event.Name)
	}
}

func (e *taskEvents) names() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.told)
}

// With sets the Name, Timeout, Retries and Target of typed calls, and nothing else.
func TestWithOptions(t *testing.T) {
	var tasks taskEvents
	pool := e2etest.Open(t, gputrain.Spec{Nodes: 2}, gputrain.WithEvents(tasks.add))
	second := gputrain.Task{Name: "second", Target: gputrain.OnRank(1)}

	nodes, err := e2etest.Where.With(second).Gather(pool, struct{}{}, struct{}{})
	if err != nil || nodes[0].NodeRank != 1 || nodes[1].NodeRank != 1 {
		t.Errorf("Target: %+v, %v", nodes, err)
	}
	for r, err := range e2etest.Where.With(second).Stream(pool, struct{}{}) {
		if err != nil || r.Node.Rank != 1 {
			t.Errorf("Stream: %+v, %v", r, err)
		}
	}
	if all, err := e2etest.Where.With(second).Broadcast(pool, struct{}{}); err != nil || len(all) != 1 {
		t.Errorf("Broadcast: %+v, %v", all, err)
	}
	if _, err := e2etest.Hang.With(gputrain.Task{Name: "short", Timeout: 10 * time.Millisecond}).Run(pool, struct{}{}); !errors.Is(err, gputrain.ErrTimeout) || !strings.Contains(err.Error(), "short") {
		t.Errorf("Timeout: %v", err)
	}
	_, err = fails.With(gputrain.Task{Name: "again", Retries: 2}).Run(pool, 2)
	if err != nil {
		t.Errorf("Retries: %v", err)
	}
	if call := fails.Call(2); call.Retries != 0 || call.Name != "" {
		t.Errorf("With has changed its receiver: %+v", call)
	}
	if call := fails.With(gputrain.Task{Retries: 7}).With(second).Call(2); call.Retries != 0 || call.Name != "second" {
		t.Errorf("a later With has kept settings of an earlier one: %+v", call)
	}
	for _, name := range []string{"second", "short", "again"} {
		e2etest.Until(t, "the event of "+name, func() bool { return slices.Contains(tasks.names(), name) })
	}
}

func TestWithOptionsOfStreams(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	short := gputrain.Task{Name: "short", Timeout: 50 * time.Millisecond}
	endless := func(yield func(int) bool) {
		for yield(1) {
		}
	}
	var errs []error
	for _, err := range counter.With(short).Run(pool, countTo{N: 1 << 40}) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	_, err := total.With(short).Run(pool, endless)
	errs = append(errs, err)
	for _, err := range squares.With(short).Run(pool, endless) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) != 3 {
		t.Errorf("%d failed: %v", len(errs), errs)
	}
	for _, err := range errs {
		if !errors.Is(err, gputrain.ErrTimeout) || !strings.Contains(err.Error(), "short") {
			t.Errorf("err = %v", err)
		}
	}
}

func TestWithRefusesWhatItDoesNotTake(t *testing.T) {
	var tasks taskEvents
	pool := e2etest.Open(t, gputrain.Spec{}, gputrain.WithEvents(tasks.add))
	for _, task := range []gputrain.Task{
		gputrain.Cmd("true"), gputrain.Script("true"), {Env: map[string]string{"A": "b"}}, {Secrets: map[string]gputrain.Secret{"A": "secret"}}, {Dir: "d"},
		{Stdin: []byte("x")}, {Outputs: []string{"*"}}, {HoldsLease: true}, doubles.Call(1), {Retries: -1}, {Timeout: -1}, {Name: "two\nlines"}, {Target: gputrain.OnRank(-1)},
	} {
		errs := make([]error, 5)
		_, errs[0] = doubles.With(task).Run(pool, 1)
		_, errs[1] = doubles.With(task).Broadcast(pool, 1)
		for _, errs[2] = range counter.With(task).Run(pool, countTo{}) {
		}
		_, errs[3] = total.With(task).Run(pool, func(func(int) bool) {})
		for _, errs[4] = range squares.With(task).Run(pool, func(func(int) bool) {}) {
		}
		for i, err := range errs {
			if !errors.Is(err, gputrain.ErrInvalid) {
				t.Errorf("%+v, call %d: err = %v", task, i, err)
			}
		}
	}
	if err := pool.Close(); err != nil { // delivers all remaining events
		t.Error(err)
	}
	if names := tasks.names(); len(names) > 0 {
		t.Errorf("these tasks ran: %q", names)
	}
}
