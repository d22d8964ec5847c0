package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"log"
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
