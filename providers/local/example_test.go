package local_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/local"
)

func ExampleConfig() {
	os.Setenv("EXAMPLE_CACHE", "/srv/cache")
	here := local.Config{PassEnv: []string{"EXAMPLE_*"}} // nodes see no other variables of this program
	pool, err := gputrain.Open(context.Background(), here, gputrain.Spec{Nodes: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	r, err := pool.Run(gputrain.Script("echo $EXAMPLE_CACHE"))
	fmt.Printf("%s%v\n", r.Stdout, err)
	// Output:
	// /srv/cache
	// <nil>
}

// A folder that is not there is an error before anything is started.
func ExampleConfig_Open() {
	_, err := local.Config{Dir: "/no/such/place"}.Open(context.Background())
	fmt.Println(err)
	// Output:
	// local: open: invalid: the directory for the nodes' homes: stat /no/such/place: no such file or directory; make it, or set Config.Dir to an existing one
}

func ExampleConfig_Name() {
	fmt.Println(local.Config{}.Name())
	// Output: local
}

// Four nodes, each with a GPU of its own, on a machine with four.
func ExampleConfig_gpus() {
	spec := gputrain.Spec{Nodes: 4, Accelerator: accelerators.A100()}
	pool, err := gputrain.Open(context.Background(), local.Config{}, spec, gputrain.WithOutput(os.Stdout, os.Stderr))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	pool.Broadcast(gputrain.Script("echo GPU $CUDA_VISIBLE_DEVICES"))
}
