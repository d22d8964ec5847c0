package gputrain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/local"
)

func ExampleOption() {
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{},
		gputrain.WithName("digits"),
		gputrain.WithOutput(os.Stdout, nil), // what tasks write to stderr is only in their results
		gputrain.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	pool.Run(gputrain.Cmd("echo", "epoch 1"))
	// Output: [task 0] epoch 1
}

// Lines are shown as they are written, each after its task's name.
func ExampleWithQuiet() {
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{}, gputrain.WithQuiet())
	if err != nil {
		log.Print(err)
		return
	}
	defer pool.Close()
	fmt.Println(len(pool.Nodes()), "node")
	// Output: 1 node
}

func ExampleWithOutput() {
	pool := start(2, gputrain.WithOutput(os.Stdout, os.Stderr))
	defer pool.Close()

	a, b := gputrain.Cmd("echo", "loss 0.31"), gputrain.Cmd("echo", "loss 0.12")
	a.Name, b.Name = "lr=0.1", "lr=0.3"
	pool.Gather(a, b)
	// Unordered output:
	// [lr=0.1] loss 0.31
	// [lr=0.3] loss 0.12
}

// With WithRawOutput a file gets a node's output unchanged, including what would control a
// terminal.
func ExampleWithRawOutput() {
	var log bytes.Buffer
	pool := start(1, gputrain.WithOutput(&log, nil), gputrain.WithRawOutput())
	pool.Run(gputrain.Cmd("printf", `\033[32mdone\033[0m\n`))
	pool.Close()
	fmt.Printf("%q\n", log.String())
	// Output: "[task 0] \x1b[32mdone\x1b[0m\n"
}

// Of each output stream KeptOutputBytes are in memory, and all of it is on disk.
func ExampleLimits() {
	here, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(here)
	pool := start(1, gputrain.WithLimits(gputrain.Limits{KeptOutputBytes: 100}), gputrain.WithResultsDir(here))
	defer pool.Close()

	r, err := pool.Run(gputrain.Cmd("head", "-c", "1000", "/dev/zero"))
	file, _ := os.Stat(r.StdoutFile)
	fmt.Println(len(r.Stdout), r.StdoutBytes, file.Size(), err)
	// Output: 100 1000 1000 <nil>
}

func ExampleWithEvents() {
	pool := start(1, gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventPool || e.Kind == gputrain.EventTask {
			fmt.Println(e.Kind, e.State)
		}
	}))
	pool.Run(gputrain.Cmd("true"))
	pool.Close() // every event has been delivered when it returns
	// Output:
	// pool opening
	// pool ready
	// task queued
	// task started
	// task done
	// pool closing
	// pool closed
}

// A view of very many tasks wants some of them, and how many there were.
func ExampleWithSampledEvents() {
	shown, counted := 0, 0
	pool := start(1, gputrain.WithSampledEvents(1, func(e gputrain.Event) {
		switch {
		case e.Kind == gputrain.EventTask && e.State == "done":
			shown++
		case e.Kind == gputrain.EventTally:
			for _, ended := range e.Tally.Ended {
				counted += ended.Done
			}
		}
	}))
	pool.Gather(slices.Repeat([]gputrain.Task{gputrain.Cmd("true")}, 20)...)
	pool.Close() // the last EventTally comes before that of the closed pool
	fmt.Println(shown+counted, shown < 20)
	// Output: 20 true
}

// A progress display needs only the kind, the state, and the elapsed time.
func ExampleEvent() {
	var mu sync.Mutex
	done := 0
	pool := start(2, gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventTask && e.State == "done" {
			mu.Lock()
			defer mu.Unlock()
			done++
		}
	}))
	pool.Gather(gputrain.Cmd("true"), gputrain.Cmd("true"), gputrain.Cmd("true"))
	pool.Close()
	fmt.Println(done, "tasks done")
	// Output: 3 tasks done
}

// If the function is slower than a burst of events, it learns how many were left out.
func ExampleEvent_omitted() {
	known, omitted := 0, 0
	pool := start(2, gputrain.WithEvents(func(e gputrain.Event) {
		switch e.Kind {
		case gputrain.EventTask:
			known++
		case gputrain.EventOmitted:
			omitted += e.Omitted
		}
	}))
	pool.Gather(gputrain.Cmd("true"), gputrain.Cmd("true"))
	pool.Close()
	fmt.Println(known, "events of tasks,", omitted, "left out")
	// Output: 6 events of tasks, 0 left out
}

func ExampleWithLogger() {
	plain := func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case "time", "pool", "elapsed", "usd", "hostKey", "region":
			return slog.Attr{}
		}
		return a
	}
	pool := start(1, gputrain.WithLogger(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: plain}))))
	pool.Close()
	// Output:
	// level=INFO msg=pool state=opening
	// level=INFO msg=node rank=0 state=launching
	// level=INFO msg=offer state=trying provider=local instanceType=local price=$0.00
	// level=INFO msg=cost
	// level=INFO msg=offer state=taken provider=local instanceType=local price=$0.00
	// level=INFO msg=node rank=0 state=connecting
	// level=INFO msg=cost
	// level=INFO msg=node rank=0 state=bootstrapping hostKeySource=injected
	// level=INFO msg=node rank=0 state=ready hostKeySource=injected
	// level=INFO msg=pool state=ready
	// level=INFO msg=pool state=closing
	// level=INFO msg=cost
	// level=INFO msg=node rank=0 state=terminated
	// level=INFO msg=pool state=closed
}

func ExampleWithName() {
	_, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{}, gputrain.WithName("my pool"))
	fmt.Println(err)
	// Output: options: invalid: the name "my pool" has " "; letters, digits and dashes are taken
}

// Outputs outlive the pool, in one folder for each task.
func ExampleWithResultsDir() {
	here, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(here)
	pool := start(1, gputrain.WithResultsDir(here))

	t := gputrain.Script("echo weights >model.bin")
	t.Outputs = []string{"*.bin"}
	r, _ := pool.Run(t)
	pool.Close()

	_, err := os.Stat(filepath.Join(r.OutputDir, "model.bin"))
	fmt.Println(r.Outputs[0].Name, err)
	// Output: model.bin <nil>
}

// On a machine that has only the built program, and no Go toolchain, functions run on nodes of
// another platform if a program was built for them beforehand:
//
//	GOOS=linux GOARCH=amd64 CGO_ENABLED=0 go build -o sweep-linux .
func ExampleWithWorkerBinary() {
	pool, err := gputrain.Open(context.Background(), container.Config{}, gputrain.Spec{}, gputrain.WithWorkerBinary("sweep-linux"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
}

// A program that is built with -trimpath does not know where its sources are. Nodes of this
// computer's platform run the program itself, and need no sources.
func ExampleWithSourceDir() {
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{}, gputrain.WithSourceDir("examples/sweep"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	length, err := hypot.Run(pool, point{3, 4})
	fmt.Println(length, err)
	// Output: 25 <nil>
}

// A node cannot fill this computer's disk or memory. Output beyond the limit is shown and counted,
// but not kept; a download or a result beyond its limit is an error.
func ExampleWithLimits() {
	pool := start(1, gputrain.WithLimits(gputrain.Limits{OutputBytes: 100, DownloadBytes: 100}))
	defer pool.Close()

	r, err := pool.Run(gputrain.Script("head -c 1000 /dev/zero | tee zeros"))
	fmt.Println(len(r.Stdout), "of", r.StdoutBytes, "bytes, truncated:", r.Truncated, err)

	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	err = pool.Download("zeros", dir)
	fmt.Println(errors.Is(err, gputrain.ErrLimit))
	// Output:
	// 100 of 1000 bytes, truncated: true <nil>
	// true
}
