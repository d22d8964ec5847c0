package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/gputrain/gputrain"
)

type point struct{ X, Y float64 }

// Functions are registered at package level. Main, or here TestMain, calls gputrain.Init first.
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
	descend = gputrain.GeneratorFunc("examples/descend", func(_ context.Context, from float64, yield func(loss float64) bool) error {
		for loss := from; yield(loss); loss /= 2 {
			if loss < 0.1 {
				return fmt.Errorf("at %g: %w", loss, errNegative)
			}
		}
		return nil // the caller has left its loop
	})
	mean = gputrain.ConsumerFunc("examples/mean", func(_ context.Context, ins iter.Seq[float64]) (float64, error) {
		sum, n := 0.0, 0
		for v := range ins {
			sum, n = sum+v, n+1
		}
		return sum / float64(n), nil
	})
	running = gputrain.PipeFunc("examples/running", func(_ context.Context, ins iter.Seq[int], yield func(sum int) bool) error {
		sum := 0
		for v := range ins {
			if sum += v; !yield(sum) {
				break
			}
		}
		return nil
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

// The compiler checks the types of arguments and results.
func ExampleFunction() {
	pool := start(2)
	defer pool.Close()

	var doubled []int
	doubled, err := double.Gather(pool, 1, 2, 3)
	fmt.Println(double.Name(), doubled, err)
	// Output: examples/double [2 4 6] <nil>
}

// A call is a task like any other, with a name, a timeout and retries.
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

// A call that failed has the zero value; the others have their results.
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

func ExampleGeneratorFunc() {
	pool := start(1)
	defer pool.Close()

	// var descend = gputrain.GeneratorFunc("descend", func(ctx context.Context, from float64, yield func(loss float64) bool) error { … })
	for loss, err := range descend.Run(pool, 1) {
		fmt.Println(loss, err)
	}
	// Output:
	// 1 <nil>
	// 0.5 <nil>
	// 0.25 <nil>
	// 0.125 <nil>
	// 0.0625 <nil>
	// 0 task 0 on node 0: at 0.0625: negative
}

// Leaving the loop ends the function on its node.
func ExampleGenerator() {
	pool := start(1)
	defer pool.Close()
	for loss := range descend.Run(pool, 1) {
		if loss < 0.5 {
			fmt.Println(descend.Name(), "has reached", loss)
			break
		}
	}
	// Output: examples/descend has reached 0.25
}

func ExampleGenerator_Run() {
	pool := start(1)
	defer pool.Close()
	next, stop := iter.Pull2(descend.Run(pool, 8))
	defer stop()
	fmt.Println(next())
	fmt.Println(next())
	// Output:
	// 8 <nil> true
	// 4 <nil> true
}

// The function takes values as fast as it can use them, from a file or a
// channel as well as from a slice.
func ExampleConsumerFunc() {
	pool := start(1)
	defer pool.Close()

	// var mean = gputrain.ConsumerFunc("mean", func(ctx context.Context, ins iter.Seq[float64]) (float64, error) { … })
	fmt.Println(mean.Run(pool, slices.Values([]float64{1, 2, 6})))
	// Output: 3 <nil>
}

func ExampleConsumer() {
	pool := start(1)
	defer pool.Close()
	samples := func(yield func(float64) bool) {
		for i := 0; i < 1000 && yield(float64(i)); i++ {
		}
	}
	average, err := mean.Run(pool, samples)
	fmt.Println(mean.Name(), average, err)
	// Output: examples/mean 499.5 <nil>
}

func ExampleConsumer_Run() {
	pool := start(1)
	defer pool.Close()
	fmt.Println(mean.Run(pool, maps.Values(map[string]float64{"a": 2, "b": 4})))
	// Output: 3 <nil>
}

func ExamplePipeFunc() {
	pool := start(1)
	defer pool.Close()

	// var running = gputrain.PipeFunc("running", func(ctx context.Context, ins iter.Seq[int], yield func(sum int) bool) error { … })
	for sum, err := range running.Run(pool, slices.Values([]int{1, 2, 3})) {
		fmt.Println(sum, err)
	}
	// Output:
	// 1 <nil>
	// 3 <nil>
	// 6 <nil>
}

// Even an endless sequence of the caller's ends with the loop.
func ExamplePipe() {
	pool := start(1)
	defer pool.Close()
	ones := func(yield func(int) bool) {
		for yield(1) {
		}
	}
	for sum := range running.Run(pool, ones) {
		if sum == 1000 {
			fmt.Println(running.Name(), "has reached", sum)
			break
		}
	}
	// Output: examples/running has reached 1000
}

func ExamplePipe_Run() {
	pool := start(1)
	defer pool.Close()
	next, stop := iter.Pull2(running.Run(pool, slices.Values([]int{20, 22})))
	defer stop()
	next()
	fmt.Println(next())
	// Output: 42 <nil> true
}

func ExampleThisNode() {
	pool := start(2)
	defer pool.Close()

	seats, err := seat.Broadcast(pool, struct{}{})
	fmt.Println(seats[1], err)
	// Output: node 1 of 2, master 127.0.0.1 <nil>
}

// A function can be tested outside of a pool: it is then the only node of its call.
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
