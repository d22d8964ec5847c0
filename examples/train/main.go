// Train fits a line to points on three nodes at once. Each node has a part of the points, and at each step all of them
// follow the mean of their gradients. They start together and fail together, and after a failure they start again from the
// newest checkpoint.
//
//	go run ./examples/train                 # a gang of Go functions; the nodes are processes on this machine
//	go run ./examples/train -fail 30        # one node fails at step 30, on purpose
//	go run ./examples/train -how processes  # train.sh in place of the function
//
// fit.go is the function, and peers.go how its nodes meet.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/console"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/local"
)

//go:embed train.sh
var trainSh string

func main() {
	gputrain.Init() // on a node this call serves the function fit and does not return

	name := flag.String("provider", "local", "where the nodes are: local or container")
	how := flag.String("how", "functions", "what the gang is made of: functions or processes")
	var s settings
	flag.IntVar(&s.Steps, "steps", 60, "how many steps there are")
	flag.IntVar(&s.Fail, "fail", 0, "the step at which a node fails, the first time that it comes there")
	flag.DurationVar(&s.Pause, "pause", 50*time.Millisecond, "how long a step takes longer than it must")
	out := flag.String("out", "", "the folder that checkpoints come to, and that a later run goes on from; empty is a new one")
	quiet := flag.Bool("quiet", false, "do not show how far it is")
	flag.Parse()
	if *quiet {
		os.Setenv("GPUTRAIN_CONSOLE", "off")
	}
	providers := map[string]gputrain.Provider{"local": local.Config{}, "container": container.Config{}}
	tasks := map[string]gputrain.Task{"functions": fit.Call(s), "processes": script(s)}
	provider, task := providers[*name], tasks[*how]
	if _, known := tasks[*how]; provider == nil || !known {
		log.Fatalf("-provider %s -how %s: they are local or container, and functions or processes", *name, *how)
	}

	// Ctrl-C, or a closed terminal, ends this context, and so the pool and everything on it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	rec, err := observe.New(observe.Config{}) // of what the pool does
	if err != nil {
		log.Fatal(err)
	}
	screen := console.Show(rec, os.Stderr)
	err = train(ctx, provider, task, *out, os.Stdout, rec.Option())
	screen.Close() // which leaves one line
	if err != nil {
		stop()
		log.Fatal(err)
	}
}

// script returns a task that does in a shell what fit does in Go, but for the line.
func script(s settings) gputrain.Task {
	t := gputrain.Script(trainSh)
	t.Env = map[string]string{"STEPS": strconv.Itoa(s.Steps), "FAIL": strconv.Itoa(s.Fail), "PAUSE": strconv.FormatFloat(s.Pause.Seconds(), 'f', -1, 64)}
	return t
}

// train runs the task on three nodes, and writes to w how it goes and what came of it.
func train(ctx context.Context, provider gputrain.Provider, task gputrain.Task, out string, w io.Writer, opts ...gputrain.Option) error {
	task.Name = "line"
	task.Checkpoints = gputrain.Checkpoints{To: out, Every: time.Second} // every half a minute, if a step takes longer
	training := gputrain.Training{
		Task:         task,
		Restarts:     2,               // after failures of its own; a lost or broken node does not count
		StallTimeout: 5 * time.Minute, // without a step
	}
	spec := gputrain.Spec{Nodes: 3, Network: gputrain.NetworkPrivate} // and at a cloud an Accelerator
	var result gputrain.TrainResult
	err := gputrain.With(ctx, provider, spec, func(ctx context.Context, pool *gputrain.Compute) (err error) {
		result, err = pool.Train(training)
		return err
	}, append(opts, gputrain.WithEvents(func(ev gputrain.Event) { show(w, ev) }))...)
	for _, e := range result.Attempts {
		fmt.Fprintf(w, "attempt %d: steps %d to %d on %d nodes\n", e.Number, e.FirstStep, e.LastStep, len(e.Nodes))
	}
	for _, r := range result.Ranks {
		if m, err := fit.Value(r); err == nil {
			fmt.Fprintf(w, "node %d: y = %.2fx %+.2f\n", r.Index, m.Slope, m.Offset)
		}
	}
	if result.Checkpoint != "" {
		fmt.Fprintln(w, "the newest checkpoint is", result.Checkpoint)
	}
	return err
}

// show writes what the gang does while it runs.
func show(w io.Writer, ev gputrain.Event) {
	why := ""
	if ev.Err != nil {
		why = fmt.Sprintf(" (%v)", ev.Err)
	}
	switch {
	case ev.Kind == gputrain.EventStep:
		fmt.Fprintf(w, "step %d of %d: loss %.4f\n", ev.Step.N, ev.Step.Of, ev.Step.Values["loss"])
	case ev.Kind == gputrain.EventTraining && ev.State == "checkpoint":
		fmt.Fprintf(w, "%s is here%s\n", ev.Path, why)
	case ev.Kind == gputrain.EventTraining && ev.Path != "":
		fmt.Fprintf(w, "attempt %d: %s, from %s%s\n", ev.Attempt, ev.State, ev.Path, why)
	case ev.Kind == gputrain.EventTraining:
		fmt.Fprintf(w, "attempt %d: %s%s\n", ev.Attempt, ev.State, why)
	}
}
