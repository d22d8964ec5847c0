package gputrain_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

// Two functions see the same events, each at its own pace.
func ExampleOptions() {
	var first, second atomic.Int64
	watching := gputrain.Options(
		gputrain.WithEvents(func(gputrain.Event) { first.Add(1) }),
		gputrain.WithEvents(func(gputrain.Event) { second.Add(1) }),
	)
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{}, watching)
	if err != nil {
		panic(err)
	}
	pool.Close()
	fmt.Println(first.Load() > 0, first.Load() == second.Load())
	// Output: true true
}

// The lines of a task, one at a time, with the task that has printed each.
func ExampleWithLines() {
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{}, gputrain.WithLines(func(l gputrain.Line) {
		fmt.Println(l.Name, "on node", l.Node, "prints:", l.Text)
	}))
	if err != nil {
		panic(err)
	}
	task := gputrain.Script("echo one; echo two")
	task.Name = "count"
	pool.Run(task)
	pool.Close() // which waits for the last line
	// Output:
	// count on node 0 prints: one
	// count on node 0 prints: two
}

// Each attempt gets the context of its trace.
func ExampleWithTaskEnv() {
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{}, gputrain.WithTaskEnv(func(e gputrain.Event) map[string]string {
		return map[string]string{"TRACEPARENT": fmt.Sprintf("00-4bf92f3577b34da6a3ce929d0e0e4736-%016x-01", e.Attempt)}
	}))
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	r, _ := pool.Run(gputrain.Script("echo $TRACEPARENT"))
	fmt.Printf("%s", r.Stdout)
	// Output: 00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000001-01
}

// What the machine of a node does, each second.
func ExampleWithUsage() {
	sampled := make(chan gputrain.HostSample, 100)
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{}, gputrain.WithUsage(time.Second), gputrain.WithEvents(func(e gputrain.Event) {
		if h := e.Usage.Host; h != nil && len(sampled) < cap(sampled) {
			sampled <- *h
		}
	}))
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	h := <-sampled
	fmt.Println(h.MemoryGiB > 0, h.MemoryGiB < h.MemoryTotalGiB, h.CPU >= 0, h.CPU <= 100)
	// Output: true true true true
}
