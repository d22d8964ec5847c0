package gputrain_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/sim"
)

// Tasks of different sizes share a node of eight GPUs, and no two a GPU.
func ExampleTask_accelerators() {
	cloud := sim.New(sim.Options{Exec: func(_ context.Context, cmd sim.Command) int {
		fmt.Fprintln(cmd.Stdout, cmd.Args[0], "on", cmd.Getenv("CUDA_VISIBLE_DEVICES"))
		return 0
	}})
	defer cloud.Close()
	pool, err := gputrain.Open(context.Background(), sim.Config{Cloud: cloud}, gputrain.Spec{
		Accelerator: accelerators.H100(accelerators.Count(8)),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	train, eval, big := gputrain.Cmd("train"), gputrain.Cmd("eval"), gputrain.Cmd("big")
	train.Accelerators, eval.Accelerators, big.Accelerators = 6, 2, 9
	results, err := pool.Gather(train, eval) // both at once
	for _, r := range results {
		fmt.Printf("%s", r.Stdout)
	}
	fmt.Println(err)
	_, err = pool.Run(big)
	fmt.Println(err)
	// Output:
	// train on 0,1,2,3,4,5
	// eval on 6,7
	// <nil>
	// sim: accelerators: invalid: a task asks for 9 of its own, and any node has 8 at most; ask for fewer with Task.Accelerators, or for more per node with Spec.Accelerator
}

// Four tasks share each GPU by NVIDIA's MPS: each has a quarter of its threads.
func ExampleSpec_gpuSharing() {
	spec := gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2)), GPUSharing: 4}
	small := gputrain.Cmd("python3", "evaluate.py")
	small.Accelerators = 1 // eight of these run at once on a node
	fmt.Println(spec.Validate(), small.Validate())

	spec.Accelerator = accelerators.MI300X()
	fmt.Println(spec.Validate())
	// Output:
	// <nil> <nil>
	// spec: invalid: GPUSharing is 4, and MI300X is not NVIDIA's, whose MPS shares devices
}
