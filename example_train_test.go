package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gputrain/gputrain"
)

// One program runs on all nodes at once. Its second process fails, so all of it ends, and starts again from the newest
// checkpoint.
func ExampleCompute_Train() {
	here, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(here)
	pool := start(2)
	defer pool.Close()

	program := gputrain.Script(`
		echo "process $RANK of $WORLD_SIZE goes on from ${GPUTRAIN_RESUME##*/}"
		[ "$GPUTRAIN_ATTEMPT" = 2 ] && exit
		if [ "$RANK" = 0 ]; then
			cd "$GPUTRAIN_CHECKPOINTS"
			mkdir .saving && mv .saving step-120
			echo gputrain: step=125/1000
			sleep 1
			echo "Connection reset by peer" >&2
			exit 1
		fi
		echo "no such column" >&2
		exit 3`)
	program.Name = "llm"
	program.Checkpoints = gputrain.Checkpoints{To: here, Every: time.Second}
	result, err := pool.Train(gputrain.Training{Task: program, Restarts: 1})
	fmt.Println(err)

	for _, e := range result.Attempts {
		var failed *gputrain.TrainError
		if errors.As(e.Err, &failed) {
			root := failed.Failures[0]
			fmt.Printf("attempt %d: rank %d: %v %d, %s\n", e.Number, root.Rank, root.Cause, root.ExitCode, root.Tail)
			continue
		}
		fmt.Printf("attempt %d: from %s on %d nodes\n", e.Number, e.Resumed, len(e.Nodes))
	}
	for _, r := range result.Ranks {
		fmt.Printf("%s", r.Stdout)
	}
	fmt.Println("step", result.Step, "and", filepath.Base(result.Checkpoint))
	// Output:
	// <nil>
	// attempt 1: rank 1: exit 3, no such column
	// attempt 2: from step-120 on 2 nodes
	// process 0 of 2 goes on from step-120
	// process 1 of 2 goes on from step-120
	// step 120 and step-120
}

// vote is a gang of functions that meet at the first node.
var vote = gputrain.Func("examples/vote", func(ctx context.Context, votes []int) (int, error) {
	node := gputrain.ThisNode(ctx)
	addr := net.JoinHostPort(node.MasterAddr, strconv.Itoa(node.MasterPort))
	if node.Rank > 0 {
		conn, err := net.Dial("tcp", addr)
		for ; err != nil && ctx.Err() == nil; conn, err = net.Dial("tcp", addr) {
			time.Sleep(10 * time.Millisecond) // it does not listen yet
		}
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		_, err = fmt.Fprintln(conn, votes[node.Rank])
		return 0, err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	sum := votes[0]
	for range node.Nodes - 1 {
		conn, err := l.Accept()
		if err != nil {
			return 0, err
		}
		var n int
		_, err = fmt.Fscanln(conn, &n)
		conn.Close()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
})

// A gang of functions: each node makes the call once, and all run at the same time.
func ExampleTraining() {
	pool := start(3)
	defer pool.Close()

	result, err := pool.Train(gputrain.Training{Task: vote.Call([]int{1, 10, 100})})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(vote.Value(result.Ranks[0]))
	// Output: 111 <nil>
}

// A command keeps its own launcher: torchrun finds the gang in its variables, and mpirun is gputrain's to start.
func ExampleLauncher() {
	for _, t := range []gputrain.Training{
		{Task: gputrain.Cmd("python3", "train.py")}, // RANK, WORLD_SIZE, MASTER_ADDR and the like
		{Task: gputrain.Cmd("torchrun", "train.py"), Launcher: gputrain.Torchrun},
		{Task: gputrain.Cmd("./solve"), Launcher: gputrain.MPI, ProcessesPerNode: 4},
	} {
		fmt.Println(t.Launcher, t.Task.Args)
	}
	// Output:
	// processes [python3 train.py]
	// torchrun [torchrun train.py]
	// mpi [./solve]
}

// A training that fails at the same place each time does not go on for ever. What failed is first in its error, and what only
// followed from that comes after it.
func ExampleTrainError() {
	pool := start(2)
	defer pool.Close()
	shared, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(shared)

	task := gputrain.Script(`gone=$SHARED/$GPUTRAIN_ATTEMPT
		if [ "$RANK" = 1 ]; then : >"$gone"; exit 4; fi
		until [ -e "$gone" ]; do sleep 0.1; done # a peer's connection breaks when it is gone
		echo "Connection reset by peer" >&2; exit 1`)
	task.Env = map[string]string{"SHARED": shared}
	result, err := pool.Train(gputrain.Training{Task: task, Restarts: 100})
	fmt.Println(len(result.Attempts), "attempts:", errors.Is(err, gputrain.ErrNoProgress))
	var failed *gputrain.TrainError
	if errors.As(err, &failed) {
		for _, f := range failed.Failures {
			fmt.Printf("rank %d: %v\n", f.Rank, f.Cause)
		}
	}
	// Output:
	// 3 attempts: true
	// rank 1: exit
	// rank 0: followed from another failure
}

// EventTraining says what a gang does, and EventStep how far it has come.
func ExampleEventKind_training() {
	pool := start(2, gputrain.WithEvents(func(ev gputrain.Event) {
		switch ev.Kind {
		case gputrain.EventTraining:
			fmt.Println("attempt", ev.Attempt, "is", ev.State)
		case gputrain.EventStep:
			fmt.Println("step", ev.Step.N, "of", ev.Step.Of)
		}
	}))
	_, err := pool.Train(gputrain.Training{Task: gputrain.Script(`[ "$RANK" = 1 ] || echo gputrain: step=7/7`)})
	pool.Close()
	fmt.Println(err)
	// Output:
	// attempt 1 is waiting
	// attempt 1 is starting
	// attempt 1 is running
	// step 7 of 7
	// attempt 1 is done
	// <nil>
}
