// Noinit opens a pool at a simulated cloud without calling gputrain.Init, which is refused, and then without a guardian.
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
	cloud := sim.Config{Endpoint: os.Args[1], Token: "env://TOKEN"}
	_, err := gputrain.Open(context.Background(), cloud, gputrain.Spec{})
	fmt.Println(errors.Is(err, gputrain.ErrNoInit), err)
	pool, err := gputrain.Open(context.Background(), cloud, gputrain.Spec{}, gputrain.WithoutGuardian())
	if err != nil {
		log.Fatal(err)
	}
	if err := pool.Close(); err != nil {
		log.Fatal(err)
	}
}
