package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"

	"github.com/gputrain/gputrain"
)

type settings struct{ rate float64 }

var (
	rate    float64
	all     settings
	table   = map[string]int{}
	steps   int
	fromEnv string
	read    settings
	loaded  []byte
	count   = flag.Int("count", 1, "")
	name    string
	before  = 1
	fixed   = 2
	cache   map[string]int
	helped  int
	passed  int
	helper  = func() int { return helped } // want `helped is set by main`
)

var train = gputrain.Func("train", func(ctx context.Context, x int) (float64, error) {
	_ = *count        // want `count is set by main`
	_ = name          // want `name is set by main`
	_ = all.rate      // want `all is set by main`
	_ = table["a"]    // want `table is set by main`
	_ = fromEnv       // want `fromEnv is set by main`
	_ = read          // want `read is set by main`
	for range steps { // want `steps is set by main`
	}
	_, _, _ = before, fixed, helper()
	if cache == nil { // it is this function's own
		cache = map[string]int{}
	}
	rate := float64(x) // another one
	return rate + inner(), nil
})

func inner() float64 {
	return rate // want `rate is set by main`
}

func body(ctx context.Context, in string, yield func(int) bool) error {
	yield(len(loaded)) // want `loaded is set by main`
	return nil
}

var generate = gputrain.GeneratorFunc[string, int]("generate", body)

func set(v int) { passed = v }

var last = gputrain.Func("last", func(context.Context, struct{}) (int, error) {
	return passed, nil // want `passed is set by main`
})

func main() {
	before = 3
	gputrain.Init()
	flag.StringVar(&name, "name", "", "")
	flag.Parse()
	rate, all.rate, table["a"] = 0.1, 0.2, 1
	steps++
	fromEnv = os.Getenv("X")
	json.Unmarshal([]byte("{}"), &read)
	loaded = []byte("x")
	helped = 1
	set(2)
	cache = map[string]int{"main": 1}
	notOnNodes()
}

// What runs here alone may read all.
func notOnNodes() { println(rate, name, *count) }
