package gputrain_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
)

// What a run that failed has made comes back too.
func ExampleTask_outputsOfAFailure() {
	here, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(here)
	pool := start(1, gputrain.WithResultsDir(here))
	defer pool.Close()

	t := gputrain.Script(`echo half >"$GPUTRAIN_SCRATCH/result.txt"; exit 3`)
	t.Outputs = []string{"result.txt"}
	r, err := pool.Run(t)
	var failed *gputrain.TaskError
	if errors.As(err, &failed) {
		b, _ := os.ReadFile(filepath.Join(r.OutputDir, r.Outputs[0].Name))
		fmt.Printf("exit code %d, attempt %d left %q\n", failed.ExitCode, r.Outputs[0].Attempt, b)
	}
	// Output: exit code 3, attempt 1 left "half\n"
}

// Checkpoints come while the run goes on. The program that made them keeps only the last one.
func ExampleTask_syncEvery() {
	here, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(here)
	pool := start(1, gputrain.WithResultsDir(here))
	defer pool.Close()

	t := gputrain.Script(`cd "$GPUTRAIN_SCRATCH"; echo 1 >step-1; until [ -e ` + here + `/seen ]; do sleep 0.1; done; rm step-1; echo 2 >step-2`)
	t.Outputs, t.SyncEvery = []string{"step-*"}, time.Second
	job := pool.Start(t)
	for seen := []string(nil); seen == nil; time.Sleep(100 * time.Millisecond) {
		seen, _ = filepath.Glob(filepath.Join(here, "*", "outputs", "step-1"))
	}
	_ = os.WriteFile(filepath.Join(here, "seen"), nil, 0o600)
	r, err := job.Wait()
	for _, f := range r.Outputs {
		fmt.Println(f.Name)
	}
	fmt.Println(err)
	// Output:
	// step-1
	// step-2
	// <nil>
}

// The shares of a training job wait for one another. When one fails, the others would wait for ever.
func ExampleTask_critical() {
	pool := start(3)
	defer pool.Close()

	share := gputrain.Script(`[ "$GPUTRAIN_RANK" != 1 ] || exit 7; sleep 600`)
	share.Critical = true
	results, err := pool.Broadcast(share)
	var failed *gputrain.TaskError
	fmt.Println(errors.As(err, &failed), failed.Node.Rank, failed.ExitCode)
	fmt.Println(results[0].Err)
	fmt.Println(strings.TrimSpace(err.Error()))
	// Output:
	// true 1 7
	// node 0: cancelled: a critical task of the call has failed: node 1: exit code 7
	// node 1: exit code 7
	// 2 other tasks cancelled because of the first failure, of a critical task
}

func ExampleFrom() {
	here, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(here)
	pool := start(3)
	defer pool.Close()

	_, _ = pool.Broadcast(gputrain.Script(`echo "$GPUTRAIN_RANK" >rank.txt`))
	err := pool.Download("rank.txt", here, gputrain.From(gputrain.OnRank(2)))
	files, _ := filepath.Glob(filepath.Join(here, "*", "*"))
	for _, f := range files {
		name, _ := filepath.Rel(here, f)
		fmt.Println(name, err)
	}
	// Output: 2/rank.txt <nil>
}

// A progress line for each transfer that takes more than a second.
func ExampleEvent_transfer() {
	show := func(ev gputrain.Event) {
		if ev.Kind != gputrain.EventTransfer || ev.Err != nil {
			return
		}
		whole := ""
		if ev.TotalBytes > 0 {
			whole = fmt.Sprintf(" of %d", ev.TotalBytes>>20)
		}
		fmt.Printf("node %d: %s %s: %d%s MiB, %.0f MiB/s\n", ev.Node, ev.State, ev.Path, ev.Bytes>>20, whole, ev.BytesPerSecond/(1<<20))
	}
	pool := start(1, gputrain.WithEvents(show))
	defer pool.Close()

	show(gputrain.Event{Kind: gputrain.EventTransfer, Node: 0, State: "sending", Path: "data", Bytes: 30 << 20, TotalBytes: 100 << 20, BytesPerSecond: 15 << 20})
	// Output: node 0: sending data: 30 of 100 MiB, 15 MiB/s
}
