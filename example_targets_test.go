package gputrain_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

// The node of rank 0 prepares what all other nodes use.
func ExampleOnRank() {
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{Nodes: 3})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	prepare := gputrain.Script("echo prepared on rank $GPUTRAIN_NODE_RANK")
	prepare.Target = gputrain.OnRank(0)
	r, err := pool.Run(prepare)
	fmt.Printf("%s%v\n", r.Stdout, err)
	// Output:
	// prepared on rank 0
	// <nil>
}

// Labels are the pool's own, such as the region, and those that the provider gives: ssh.Host has a
// field for them.
func ExampleOnLabels() {
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{Nodes: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	task := gputrain.Script("echo here")
	task.Target = gputrain.OnLabels(map[string]string{gputrain.LabelProvider: "local"})
	r, err := pool.Run(task)
	fmt.Printf("%v: %s", task.Target, r.Stdout)
	task.Target = gputrain.OnLabels(map[string]string{gputrain.LabelRegion: "eu-north-1"})
	_, err = pool.Run(task)
	fmt.Println(errors.Is(err, gputrain.ErrInvalid), strings.Contains(err.Error(), "no node has region=eu-north-1"))
	// Output:
	// provider=local: here
	// true true
}

func ExampleNode_Labels() {
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	labels := pool.Nodes()[0].Labels()
	fmt.Println(labels[gputrain.LabelProvider], labels[gputrain.LabelMarket])
	// Output: local on-demand
}

// A job's output can be read while it runs.
func ExampleJob_Stdout() {
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	job := pool.Start(gputrain.Script("for epoch in 1 2 3; do echo epoch $epoch; done"))
	lines := bufio.NewScanner(job.Stdout())
	for lines.Scan() {
		fmt.Println("it says:", lines.Text())
	}
	_, err = job.Wait()
	fmt.Println(err)
	// Output:
	// it says: epoch 1
	// it says: epoch 2
	// it says: epoch 3
	// <nil>
}
