package gputrain_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gputrain/gputrain"
)

// With sets the calls' name, timeout and retries, and says which nodes may run them. The compiler
// still checks the types of arguments and results.
func ExampleFunction_With() {
	pool := start(2)
	defer pool.Close()

	careful := double.With(gputrain.Task{Name: "doubling", Timeout: time.Minute, Retries: 1, Target: gputrain.OnRank(1)})
	fmt.Println(careful.Gather(pool, 1, 2))
	fmt.Println(careful.Run(pool, -1)) // the second attempt fails too
	// Output:
	// [2 4] <nil>
	// 0 doubling on node 1 (attempt 2): -1: negative
}

func ExampleGenerator_With() {
	pool := start(1)
	defer pool.Close()

	training := descend.With(gputrain.Task{Name: "training", Timeout: time.Minute})
	for loss, err := range training.Run(pool, 0.2) {
		fmt.Println(loss, err)
	}
	// Output:
	// 0.2 <nil>
	// 0.1 <nil>
	// 0.05 <nil>
	// 0 training on node 0: at 0.05: negative
}

func ExampleConsumer_With() {
	pool := start(2)
	defer pool.Close()

	near := mean.With(gputrain.Task{Name: "the mean", Target: gputrain.OnRank(0)})
	fmt.Println(near.Run(pool, slices.Values([]float64{1, 2, 6})))
	// Output: 3 <nil>
}

func ExamplePipe_With() {
	pool := start(1)
	defer pool.Close()

	sums := running.With(gputrain.Task{Name: "sums", Timeout: time.Minute})
	for sum, err := range sums.Run(pool, slices.Values([]int{20, 22})) {
		fmt.Println(sum, err)
	}
	// Output:
	// 20 <nil>
	// 42 <nil>
}

var greet = gputrain.Func("examples/greet", func(_ context.Context, name string) (string, error) {
	fmt.Println("hello from inside,", name)
	return "hello, " + name, nil
})

// What a function prints on its node is shown here, and is in the call's Result.
func ExampleFunc_output() {
	pool := start(1, gputrain.WithOutput(os.Stdout, nil))
	defer pool.Close()

	// var greet = gputrain.Func("greet", func(_ context.Context, name string) (string, error) { fmt.Println("hello from inside,", name); … })
	r, err := pool.Run(greet.Call("Ada"))
	fmt.Printf("%q %v\n", r.Stdout, err)
	// Output:
	// [task 0] hello from inside, Ada
	// "hello from inside, Ada\n" <nil>
}
