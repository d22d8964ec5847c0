package main

import (
	"context"

	"github.com/gputrain/gputrain"
)

var fromInit int

func init() { fromInit = 1 } // runs on nodes, too

var compute = gputrain.Func("compute", func(ctx context.Context, rate float64) (float64, error) {
	return rate * float64(fromInit), nil
})

var result float64

func main() {
	gputrain.Init()
	result = 1
	println(result)
}
