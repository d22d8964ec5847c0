package gputrain_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gputrain/gputrain"
)

// Functions are registered at package level. Main, or as here TestMain, calls
// gputrain.Init first.
var (
	hypot = gputrain.Func("examples/hypot", func(_ context.Context, p point) (float64, error) {
		return p.X*p.X + p.Y*p.Y, nil
	})
	double = gputrain.Func("examples/double", func(_ context.Context, x int) (int, error) {
		if x < 0 {
			return 0, fmt.Errorf("%d: %w", x, errNegative)
		}
		return 2 * x, nil
	})
	partial = gputrain.Func("examples/partial", func(ctx context.Context, items []int) (int, error) {
		sum := 0
		for _, v := range gputrain.Shard(ctx, items) { // this node's share
			sum += v
		}
		return sum, nil
	})
	seat = gputrain.Func("examples/seat", func(ctx context.Context, _ struct{}) (string, error) {
		n := gputrain.ThisNode(ctx)
		return fmt.Sprintf("node %d of %d, master %s", n.Rank, n.Nodes, n.MasterAddr), nil
	})
)

var errNegative = gputrain.RegisterError("examples/negative", errors.New("negative"))

func ExampleFunc() {
	pool := start(2)
	defer pool.Close()

	// var hypot = gputrain.Func("hypot", func(ctx context.Context, p point) (float64, error) { … })
	fmt.Println(hypot.Run(pool, point{3, 4}))
	// Output: 25 <nil>
}

// What goes in and what comes back is checked by the compiler.
func ExampleFunction() {
	pool := start(2)
	defer pool.Close()

	var doubled []int
	doubled, err := double.Gather(pool, 1, 2, 3)
	fmt.Println(double.Name(), doubled, err)
	// Output: examples/double [2 4 6] <nil>
}

// A call is a task like any other: with a name, a timeout, retries.
func ExampleFunction_Call() {
	pool := start(2)
	defer pool.Close()

	call := double.Call(21)
	call.Name, call.Retries = "the answer", 2
	results, err := pool.Gather(call, gputrain.Cmd("true"))
	answer, _ := double.Value(results[0])
	fmt.Println(answer, err)
	// Output: 42 <nil>
}

func ExampleFunction_Value() {
	pool := start(1)
	defer pool.Close()

	good, _ := pool.Run(double.Call(4))
	bad, _ := pool.Run(double.Call(-4))
	fmt.Println(double.Value(good))
	fmt.Println(double.Value(bad))
	// Output:
	// 8 <nil>
	// 0 task 0 on node 0: -4: negative
}

func ExampleFunction_Run() {
	pool := start(1)
	defer pool.Close()
	fmt.Println(double.Run(pool, 4))
	// Output: 8 <nil>
}

// A call that failed has the zero value; the others have theirs.
func ExampleFunction_Gather() {
	pool := start(2)
	defer pool.Close()
	fmt.Println(double.Gather(pool, 1, -2, 3))
	// Output: [2 0 6] task 1 on node 1: -2: negative
}

func ExampleFunction_Broadcast() {
	pool := start(2)
	defer pool.Close()
	fmt.Println(partial.Broadcast(pool, []int{1, 2, 3, 4}))
	// Output: [3 7] <nil>
}

func ExampleFunction_Stream() {
	pool := start(2)
	defer pool.Close()

	for r, err := range double.Stream(pool, 1, -2, 3) { // in the order in which they finish
		if err != nil {
			fmt.Println(r.Index, "failed:", errors.Is(err, errNegative))
			continue
		}
		fmt.Println(r.Index, "is", r.Value)
	}
	// Unordered output:
	// 0 is 2
	// 1 failed: true
	// 2 is 6
}

func ExampleThisNode() {
	pool := start(2)
	defer pool.Close()

	seats, err := seat.Broadcast(pool, struct{}{})
	fmt.Println(seats[1], err)
	// Output: node 1 of 2, master 127.0.0.1 <nil>
}

// A function can be tested as it is: outside of a pool it is one node of one.
func ExampleNodeInfo() {
	n := gputrain.ThisNode(context.Background())
	fmt.Println(n.Rank, n.Nodes)
	// Output: 0 1
}

// Every node gets all items and takes its share.
func ExampleShard() {
	pool := start(3)
	defer pool.Close()
	sums, err := partial.Broadcast(pool, []int{1, 2, 3, 4, 5, 6, 7})
	fmt.Println(sums, err)
	// Output: [3 7 18] <nil>
}

// var errNegative = gputrain.RegisterError("negative", errors.New("negative"))
func ExampleRegisterError() {
	pool := start(1)
	defer pool.Close()

	_, err := double.Run(pool, -1) // the node's error wraps errNegative
	fmt.Println(errors.Is(err, errNegative))
	// Output: true
}

func ExampleInit() {
	main := func() {
		gputrain.Init() // first: on a node it serves the functions and does not return

		pool := start(1)
		defer pool.Close()
		fmt.Println(double.Run(pool, 2))
	}
	main()
	// Output: 4 <nil>
}
