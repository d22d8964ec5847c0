// Sweep finds good settings for a small network that reads handwritten digits:
// it trains one network for each setting, on four nodes, and prints a table.
//
//	go run ./examples/sweep                      # nodes are processes on this machine
//	go run ./examples/sweep -provider container  # nodes are containers
//
// While it runs a table on stderr shows how far it is, if that is a terminal, and otherwise a line for each change; with -quiet
// neither. What it prints itself goes to stdout.
//
// The network is written in model.go and dense.go; DATA.md says where the
// images come from.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/console"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/local"
)

// metrics are the results of one setting.
type metrics struct {
	Accuracy float64 // on the validation part
	Loss     float64
	Time     time.Duration
}

// train is registered under a name, at package level, so that the program
// knows it here and on every node.
var train = gputrain.Func("train", func(ctx context.Context, p params) (metrics, error) {
	data, err := digits()
	if err != nil {
		return metrics{}, err
	}
	start := time.Now()
	n, err := fit(ctx, p, data.Train)
	if err != nil {
		return metrics{}, err
	}
	accuracy, loss := n.score(data.Validation)
	return metrics{Accuracy: accuracy, Loss: loss, Time: time.Since(start)}, nil
})

// examine trains once more, now with the validation part too, and returns the
// accuracy on the test part, which influenced no choice.
var examine = gputrain.Func("examine", func(ctx context.Context, p params) (float64, error) {
	data, err := digits()
	if err != nil {
		return 0, err
	}
	n, err := fit(ctx, p, append(data.Train, data.Validation...))
	if err != nil {
		return 0, err
	}
	accuracy, _ := n.score(data.Test)
	return accuracy, nil
})

func main() {
	gputrain.Init() // on a node this call serves the functions above and does not return

	name := flag.String("provider", "local", "where the nodes are: local or container")
	nodes := flag.Int("nodes", 4, "how many nodes")
	quiet := flag.Bool("quiet", false, "do not show how far it is")
	flag.Parse()
	if *quiet {
		os.Setenv("GPUTRAIN_CONSOLE", "off")
	}
	providers := map[string]gputrain.Provider{"local": local.Config{}, "container": container.Config{}}
	provider, ok := providers[*name]
	if !ok {
		log.Fatalf("-provider %s: it is local or container", *name)
	}

	// Ctrl-C, or a closed terminal, ends this context, and so the pool and everything on it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	rec, err := observe.New(observe.Config{}) // of what the pool does
	if err != nil {
		log.Fatal(err)
	}
	screen := console.Show(rec, os.Stderr)
	err = sweep(ctx, provider, *nodes, grid(), os.Stdout, rec.Option())
	screen.Close() // which leaves one line
	if err != nil {
		stop()
		log.Fatal(err)
	}
}

// sweep trains with every setting and writes a table, best first, to w.
func sweep(ctx context.Context, provider gputrain.Provider, nodes int, settings []params, w io.Writer, opts ...gputrain.Option) (err error) {
	pool, err := gputrain.Open(ctx, provider, gputrain.Spec{Nodes: nodes}, opts...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()

	var tasks []gputrain.Task
	for _, p := range settings {
		tasks = append(tasks, train.Call(p))
	}
	fmt.Fprintf(w, "training %d networks on %d nodes\n", len(tasks), nodes)
	start := time.Now()
	results, err := pool.Gather(tasks...) // in the order of tasks, whatever finished first
	if err != nil {
		return err // the joined errors of the tasks that failed
	}
	elapsed := time.Since(start).Round(time.Millisecond)

	var rows []row
	for i, r := range results {
		m, err := train.Value(r)
		if err != nil {
			return err
		}
		rows = append(rows, row{settings[i], m, r.Node.Rank})
	}
	best := rank(rows)
	if err := table(w, rows); err != nil {
		return err
	}

	accuracy, err := examine.Run(pool, best.params)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%d networks in %v. Best: %s.\n", len(rows), elapsed, best.params)
	fmt.Fprintf(w, "Held-out test accuracy: %.4f\n", accuracy)
	return nil
}
