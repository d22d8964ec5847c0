package tensordock_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/tensordock"
)

func ExampleConfig() {
	spec := gputrain.Spec{
		Accelerator: accelerators.RTX4090(),
		MemoryGiB:   32,
		DiskGiB:     200,
		TTL:         8 * time.Hour,
	}
	pool, err := gputrain.Open(context.Background(), tensordock.Config{Location: "US"}, spec, gputrain.WithOutput(os.Stdout, os.Stderr))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Run(gputrain.Cmd("nvidia-smi", "-L")); err != nil {
		log.Print(err)
	}
}

func ExampleConfig_Name() {
	fmt.Println(tensordock.Config{}.Name())
	// Output: tensordock
}
