package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/local"
)

func ExampleSpec() {
	spec := gputrain.Spec{
		Accelerator:  accelerators.A100(accelerators.Count(4), accelerators.Memory(80)),
		Nodes:        2,
		Concurrency:  4, // tasks at once on each node
		DiskGiB:      200,
		Allocation:   gputrain.SpotIfAvailable,
		MaxHourlyUSD: 8, // a node
		Lease:        10 * time.Minute,
		TTL:          8 * time.Hour,
	}
	fmt.Println(spec.Validate())
	// Output: <nil>
}

// Validate returns all mistakes at once. Open makes the same check first.
func ExampleSpec_Validate() {
	err := gputrain.Spec{Nodes: 2, MinReady: 3, Lease: time.Second}.Validate()
	fmt.Println(errors.Is(err, gputrain.ErrInvalid))
	fmt.Println(err)
	// Output:
	// true
	// spec: invalid: MinReady is 3, more than the 2 of Nodes; Lease is 1s; the least that can be kept is 5s
}

// Phases run in the order of these fields, on all nodes at once.
func ExampleImage() {
	image := gputrain.Image{
		Env:   map[string]string{"MODEL": "tiny"},
		Setup: []string{"mkdir data", `echo "model $MODEL" >data/config`},
	}
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{Image: image})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	r, _ := pool.Run(gputrain.Cmd("cat", "data/config"))
	fmt.Printf("%s", r.Stdout)
	// Output: model tiny
}

// The pool's secrets are in every command, function and phase, and are written nowhere. A variable that is a credential
// by its name is refused elsewhere.
func ExampleSpec_secrets() {
	os.Setenv("EXAMPLE_TOKEN", "hunter2")
	defer os.Unsetenv("EXAMPLE_TOKEN")
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{
		Secrets: map[string]gputrain.Secret{"HF_TOKEN": "env://EXAMPLE_TOKEN"},
		Image:   gputrain.Image{Setup: []string{`test -n "$HF_TOKEN" && echo yes >there`}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	r, _ := pool.Run(gputrain.Script(`cat there; test "$HF_TOKEN" = hunter2 && echo the task has it`))
	fmt.Printf("%s", r.Stdout)
	t := gputrain.Cmd("true")
	t.Env = map[string]string{"WANDB_API_KEY": "hunter2"}
	_, err = pool.Run(t)
	fmt.Println(err)
	// Output:
	// yes
	// the task has it
	// task: invalid: Env["WANDB_API_KEY"] is a credential by its name, and Env is kept in clear; use Task.Secrets or Spec.Secrets, or another name if it is none
}

// This is what a Python project typically needs.
func ExampleImage_python() {
	spec := gputrain.Spec{Image: gputrain.Image{
		Apt:     []string{"libgomp1"},
		Python:  "3.12",
		Pip:     []string{"torch==2.4.0", "numpy"},
		Include: []string{"./src"},
		Exclude: []string{"*.ckpt"},
		Setup:   []string{"python -c 'import torch'"},
	}}
	fmt.Println(spec.Validate())
	// Output: <nil>
}

// A project's own list of packages decides what nodes have. A requirements.txt does, too.
func ExampleImage_requirements() {
	spec := gputrain.Spec{Image: gputrain.Image{
		Requirements: "pyproject.toml", // and uv.lock, which is beside it
		Include:      []string{"./src"},
		Setup:        []string{"python -c 'import torch'"},
	}}
	fmt.Println(spec.Validate())
	// Output: <nil>
}

// Before comes before system packages and Python, and Setup after everything else.
func ExampleImage_before() {
	image := gputrain.Image{
		Before: []string{"echo first >order"},
		Setup:  []string{"echo last >>order"},
	}
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{Image: image})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	r, _ := pool.Run(gputrain.Script(`cat order; echo "lines come as they are printed: $PYTHONUNBUFFERED"`))
	fmt.Printf("%s", r.Stdout)
	// Output:
	// first
	// last
	// lines come as they are printed: 1
}

// Tasks run in a container of this image: on machines by their own Docker, and at clouds that rent containers it is the
// image that is rented.
func ExampleImage_docker() {
	spec := gputrain.Spec{Image: gputrain.Image{
		Docker:         "ghcr.io/team/train:2.1-cuda12.9",
		DockerUser:     "robot",
		DockerPassword: "env://GHCR_TOKEN", // looked up when the pool is opened, and kept nowhere
		Setup:          []string{"python -c 'import torch'"},
	}}
	fmt.Println(spec.Validate())

	spec.Image.Docker = "https://ghcr.io/team/train"
	fmt.Println(spec.Validate())
	// Output:
	// <nil>
	// spec: invalid: Image.Docker: "https://ghcr.io/team/train" is not the name of an image: its registry is no host and port; it must be like debian:12 or ghcr.io/team/train:2.1
}

// Every container of the pool sees the folder, which stays when the containers go.
func ExampleMount() {
	spec := gputrain.Spec{Mounts: []gputrain.Mount{{Source: "/srv/datasets", Target: "/data", ReadOnly: true}}}
	pool, err := gputrain.Open(context.Background(), container.Config{}, spec)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	pool.Run(gputrain.Cmd("ls", "/data"))
}

// A price that is not known is never the same as free.
func ExamplePrice() {
	var unknown gputrain.Price
	for _, p := range []gputrain.Price{unknown, driver.USD(0), driver.USD(1.25)} {
		usd, known := p.USD()
		fmt.Println(p, usd, known)
	}
	// Output:
	// unknown 0 false
	// $0.00 0 true
	// $1.25 1.25 true
}

func ExampleUSD() {
	fmt.Println(driver.USD(2.4))
	// Output: $2.40
}

func ExampleAllocation() {
	fmt.Println(gputrain.Spec{}.Allocation, "or", gputrain.SpotIfAvailable)
	// Output: on demand or spot if available
}

func ExampleNode() {
	pool := start(1)
	n := pool.Nodes()[0]
	fmt.Println(n.Rank, n.State, n.VCPUs > 0, n.MemoryGiB > 0)
	pool.Close()
	fmt.Println(pool.Nodes()[0].State == gputrain.NodeTerminated)
	// Output:
	// 0 ready true true
	// true
}

// Nodes whose host key is known only by the first contact are not rented.
func ExampleSpec_hostKeys() {
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{RequireKnownHostKey: true})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	n := pool.Nodes()[0]
	fmt.Println(n.HostKeySource, strings.HasPrefix(n.HostKey, "SHA256:"))
	// Output: injected true
}
