package observe_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/providers/local"
)

// A recorder knows what has become of each task, also afterwards.
func Example() {
	rec, err := observe.New(observe.Config{})
	if err != nil {
		panic(err)
	}
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{}, rec.Option())
	if err != nil {
		panic(err)
	}
	good, bad := gputrain.Script("echo good"), gputrain.Script("echo bad >&2; exit 3")
	good.Name, bad.Name = "good", "bad"
	pool.Gather(good, bad)
	pool.Close()
	rec.Close()

	run := rec.Run()
	fmt.Println(run.Counts.Done, "done,", run.Counts.Failed, "failed")
	for _, f := range run.Failures {
		fmt.Println(f.Name, "failed:", f.Cause, f.Tail)
	}
	// Output:
	// 1 done, 1 failed
	// bad failed: exit bad
}

// What a recorder keeps has bounds, in memory and on disk, however much a program prints: old lines go first.
func ExampleConfig() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "run.events")
	rec, err := observe.New(observe.Config{File: file, MemoryBytes: 1 << 20, FileBytes: 2 << 20})
	if err != nil {
		panic(err)
	}
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{}, rec.Option())
	if err != nil {
		panic(err)
	}
	pool.Run(gputrain.Script("yes 'one of a million lines' | head -n 200000"))
	pool.Close()
	rec.Close()

	info, err := os.Stat(file)
	fmt.Println(rec.Run().Counts.Done, "done,", info.Size() <= 2<<20, err)
	// Output: 1 done, true <nil>
}

// The file of a program that has ended, or was killed, says how far it had come.
func ExampleRead() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "run.events")
	rec, err := observe.New(observe.Config{File: file})
	if err != nil {
		panic(err)
	}
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{Nodes: 2}, rec.Option())
	if err != nil {
		panic(err)
	}
	pool.Close()
	rec.Close()

	run, err := observe.Read(file)
	fmt.Println(len(run.Nodes), "nodes,", run.Pools[0].State, err)
	// Output: 2 nodes, closed <nil>
}

// Events replays what was recorded, from any number on, and goes on with what comes.
func ExampleRecorder_Events() {
	rec, err := observe.New(observe.Config{})
	if err != nil {
		panic(err)
	}
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{}, rec.Option())
	if err != nil {
		panic(err)
	}
	pool.Close()
	rec.Close() // without it Events would wait for more
	for e := range rec.Events(context.Background(), 0) {
		if e.Event != nil && e.Event.Kind == gputrain.EventPool {
			fmt.Println(e.Event.State)
		}
	}
	// Output:
	// opening
	// ready
	// closing
	// closed
}
