package verda_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/verda"
)

func ExampleConfig() {
	spec := gputrain.Spec{
		Accelerator: accelerators.H100(),
		Allocation:  driver.SpotIfAvailable,
		DiskGiB:     200,
		TTL:         8 * time.Hour,
	}
	pool, err := gputrain.Open(context.Background(), verda.Config{Region: "FIN-03"}, spec, gputrain.WithOutput(os.Stdout, os.Stderr))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Run(gputrain.Cmd("nvidia-smi", "-L")); err != nil {
		log.Print(err)
	}
}

func ExampleConfig_Name() {
	fmt.Println(verda.Config{}.Name())
	// Output: verda
}
