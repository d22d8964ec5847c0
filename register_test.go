package gputrain_test

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
)

// A function that is registered after Init is refused by its own first call, and
// a node whose worker starts later serves all others.
func TestLateFunctionIsRefusedAlone(t *testing.T) {
	pool := open(t, gputrain.Spec{})
	late := gputrain.Func("register/late", func(_ context.Context, x int) (int, error) { return x, nil })
	generator := gputrain.GeneratorFunc("register/late-generator", func(context.Context, int, func(int) bool) error { return nil })
	consumer := gputrain.ConsumerFunc("register/late-consumer", func(context.Context, iter.Seq[int]) (int, error) { return 0, nil })
	pipe := gputrain.PipeFunc("register/late-pipe", func(context.Context, iter.Seq[int], func(int) bool) error { return nil })
	twice := gputrain.Func("examples/double", func(_ context.Context, x int) (int, error) { return 3 * x, nil })

	if out, err := double.Run(pool, 4); out != 8 || err != nil { // which starts the worker
		t.Fatalf("another function: %v, %v", out, err)
	}
	none := func(func(int) bool) {}
	errs := map[string]error{}
	_, errs[late.Name()] = late.Run(pool, 1)
	_, errs[twice.Name()] = twice.Run(pool, 1)
	_, errs[consumer.Name()] = consumer.Run(pool, none)
	for _, errs[generator.Name()] = range generator.Run(pool, 1) {
	}
	for _, errs[pipe.Name()] = range pipe.Run(pool, none) {
	}
	for name, err := range errs {
		for _, says := range []string{name, "register_test.go:", "package level, before Init"} {
			if err == nil || !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: err = %v, which does not say %q", name, err, says)
			}
		}
	}
	if results, err := late.Gather(pool, 1, 2); len(results) > 0 || !errors.Is(err, gputrain.ErrInvalid) {
		t.Errorf("Gather: %v, %v", results, err)
	}
	if out, err := double.Run(pool, 5); out != 10 || err != nil {
		t.Errorf("afterwards: %v, %v", out, err)
	}
}

// untouched is a provider that no pool may be opened at.
type untouched struct{}

func (untouched) Name() string { return "untouched" }
func (untouched) Open(context.Context) (gputrain.Driver, error) {
	return nil, errors.New("the provider was opened")
}

// mistaken is a program that makes a mistake before Open.
var mistaken = newRole("register/mistaken", func(mistake string) error {
	gputrain.ForgetInit()
	again := func(context.Context, int) (int, error) { return 0, nil }
	switch mistake {
	case "two functions of one name":
		gputrain.Func("examples/double", again)
	case "a bad name":
		gputrain.ConsumerFunc("no spaces please", func(context.Context, iter.Seq[int]) (int, error) { return 0, nil })
	case "a type that cannot travel":
		gputrain.Func("register/channel", func(context.Context, chan int) (int, error) { return 0, nil })
	}
	if mistake != "no Init" {
		gputrain.Init()
	}
	for _, open := range []func() (*gputrain.Compute, error){
		func() (*gputrain.Compute, error) {
			return gputrain.Open(context.Background(), untouched{}, gputrain.Spec{})
		},
		func() (*gputrain.Compute, error) { return gputrain.Attach(context.Background(), untouched{}, "none") },
	} {
		_, err := open()
		say("refused: invalid=%v noInit=%v %v", errors.Is(err, gputrain.ErrInvalid), errors.Is(err, gputrain.ErrNoInit), err)
	}
	return nil
})

// What is wrong with a program's functions is known before a machine is rented.
func TestOpenRefusesFunctionsThatNoNodeCanServe(t *testing.T) {
	for mistake, says := range map[string]string{
		"no Init":                   "first line of main, or of TestMain",
		"two functions of one name": `two functions are called "examples/double"`,
		"a bad name":                `"no spaces please"`,
		"a type that cannot travel": `"register/channel"`,
	} {
		c := mistaken.start(t, mistake)
		for _, op := range []string{"open: ", "attach: "} {
			said := c.await("refused: ")
			if !strings.Contains(said, "invalid=true") || !strings.Contains(said, op) || !strings.Contains(said, says) || strings.Contains(said, "noInit=true") != (mistake == "no Init") {
				t.Errorf("%s: it said %q", mistake, said)
			}
		}
	}
}

// taskEvents collects the names of tasks in events.
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

// With gives typed calls a Name, Timeout, Retries and Target, and nothing else.
func TestWithOptions(t *testing.T) {
	var tasks taskEvents
	pool := open(t, gputrain.Spec{Nodes: 2}, gputrain.WithEvents(tasks.add))
	second := gputrain.Task{Name: "second", Target: gputrain.OnRank(1)}

	nodes, err := where.With(second).Gather(pool, struct{}{}, struct{}{})
	if err != nil || nodes[0].NodeRank != 1 || nodes[1].NodeRank != 1 {
		t.Errorf("Target: %+v, %v", nodes, err)
	}
	for r, err := range where.With(second).Stream(pool, struct{}{}) {
		if err != nil || r.Node.Rank != 1 {
			t.Errorf("Stream: %+v, %v", r, err)
		}
	}
	if all, err := where.With(second).Broadcast(pool, struct{}{}); err != nil || len(all) != 1 {
		t.Errorf("Broadcast: %+v, %v", all, err)
	}
	if _, err := hang.With(gputrain.Task{Name: "short", Timeout: 10 * time.Millisecond}).Run(pool, struct{}{}); !errors.Is(err, gputrain.ErrTimeout) || !strings.Contains(err.Error(), "short") {
		t.Errorf("Timeout: %v", err)
	}
	_, err = fails.With(gputrain.Task{Name: "again", Retries: 2}).Run(pool, 2)
	if err != nil {
		t.Errorf("Retries: %v", err)
	}
	if call := fails.Call(2); call.Retries != 0 || call.Name != "" {
		t.Errorf("With has changed what it was called on: %+v", call)
	}
	if call := fails.With(gputrain.Task{Retries: 7}).With(second).Call(2); call.Retries != 0 || call.Name != "second" {
		t.Errorf("a later With has left something of an earlier one: %+v", call)
	}
	for _, name := range []string{"second", "short", "again"} {
		until(t, "the event of "+name, func() bool { return slices.Contains(tasks.names(), name) })
	}
}

func TestWithOptionsOfStreams(t *testing.T) {
	pool := open(t, gputrain.Spec{})
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
	pool := open(t, gputrain.Spec{}, gputrain.WithEvents(tasks.add))
	for _, task := range []gputrain.Task{
		gputrain.Cmd("true"), gputrain.Script("true"), {Env: map[string]string{"A": "b"}}, {Secrets: map[string]gputrain.Secret{"A": "secret"}}, {Dir: "d"},
		{Stdin: []byte("x")}, {Outputs: []string{"*"}}, {HoldsLease: true}, double.Call(1), {Retries: -1}, {Timeout: -1}, {Name: "two\nlines"}, {Target: gputrain.OnRank(-1)},
	} {
		errs := make([]error, 5)
		_, errs[0] = double.With(task).Run(pool, 1)
		_, errs[1] = double.With(task).Broadcast(pool, 1)
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
	if err := pool.Close(); err != nil { // all events have been told then
		t.Error(err)
	}
	if names := tasks.names(); len(names) > 0 {
		t.Errorf("something ran: %q", names)
	}
}
