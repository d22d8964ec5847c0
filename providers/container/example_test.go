package container_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/container"
)

func ExampleConfig() {
	spec := gputrain.Spec{Nodes: 4, VCPUs: 1, MemoryGiB: 1, Image: gputrain.Image{Apt: []string{"python3"}}}
	pool, err := gputrain.Open(context.Background(), container.Config{}, spec, gputrain.WithOutput(os.Stdout, os.Stderr))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	if _, err := pool.Broadcast(gputrain.Cmd("python3", "--version")); err != nil {
		log.Print(err)
	}
}

// Podman, with a CUDA image, all GPUs, and room for PyTorch's data loaders.
func ExampleConfig_gpus() {
	engine := container.Config{
		Binary:     "podman",
		Image:      "docker.io/nvidia/cuda:12.6.3-runtime-ubuntu24.04",
		GPUs:       "all",
		ShmSizeGiB: 8,
		Labels:     map[string]string{"team": "vision"},
	}
	pool, err := gputrain.Open(context.Background(), engine, gputrain.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	pool.Run(gputrain.Cmd("nvidia-smi", "-L"))
}

// Two nodes with two GPUs each, which no other pool on that engine gets meanwhile. Tasks run as
// a user of the image, in a network that was made by "docker network create lab".
func ExampleConfig_ownGPUs() {
	engine := container.Config{
		Image:   "pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime",
		OwnGPUs: []string{"0", "1", "2", "3"},
		Network: "lab",
		User:    "ubuntu",
	}
	spec := gputrain.Spec{Nodes: 2, Accelerator: accelerators.A100(accelerators.Count(2))}
	pool, err := gputrain.Open(context.Background(), engine, spec)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	pool.Broadcast(gputrain.Cmd("nvidia-smi", "-L"))
}

func ExampleConfig_Name() {
	fmt.Println(container.Config{}.Name())
	// Output: container
}

// Open finds the engine and starts nothing.
func ExampleConfig_Open() {
	_, err := container.Config{Binary: "no-such-engine"}.Open(context.Background())
	fmt.Println(err)
	// Output:
	// container: open: unavailable: there is no "no-such-engine" on this machine; install it, or set Binary to the engine's command
}
