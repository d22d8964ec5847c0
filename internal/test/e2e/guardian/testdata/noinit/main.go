// Noinit opens a pool at a simulated cloud without calling gputrain.Init, and prints what it hears of its guardian.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

func main() {
	pool, err := gputrain.Open(context.Background(), sim.Config{Endpoint: os.Args[1], Token: "env://TOKEN"}, gputrain.Spec{}, gputrain.WithEvents(func(ev gputrain.Event) {
		if ev.State == "guardian" {
			fmt.Println(errors.Is(ev.Err, gputrain.ErrNoInit), ev.Err)
		}
	}))
	if err != nil {
		log.Fatal(err)
	}
	if err := pool.Close(); err != nil {
		log.Fatal(err)
	}
}
