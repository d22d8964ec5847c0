// Commands runs a sweep of Python processes in containers: the script and the
// data go up, lines stream back while they train, a JSON file of each comes
// down.
//
//	go run ./examples/commands                  # nodes are containers
//	go run ./examples/commands -provider local  # processes here, with this machine's python3
//
// While it runs a table on stderr shows how far it is, if that is a terminal, and otherwise a line for each change; with -quiet
// neither. What the processes print goes to stdout.
//
// The script is src/train.py; the data is that of examples/sweep.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/console"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/local"
)

func main() {
	name := flag.String("provider", "container", "where the nodes are: container or local")
	out := flag.String("out", "results", "the folder that results go to")
	quiet := flag.Bool("quiet", false, "do not show how far it is")
	flag.Parse()
	if *quiet {
		os.Setenv("GPUTRAIN_CONSOLE", "off")
	}
	results, err := filepath.Abs(*out)
	if err != nil {
		log.Fatal(err)
	}
	if err := besideSource(); err != nil {
		log.Fatal(err)
	}

	image := gputrain.Image{
		Env:     map[string]string{"PYTHONUNBUFFERED": "1"},
		Include: []string{"./src"}, // copied to every node, only what changed
		Setup:   []string{"python3 --version", "mkdir -p out"},
	}
	var provider gputrain.Provider
	switch *name {
	case "container":
		provider = container.Config{}
		image.Apt = []string{"python3"}
	case "local":
		provider = local.Config{} // installing packages is not for a local node
	default:
		log.Fatalf("-provider %s: it is container or local", *name)
	}

	// Ctrl-C, or a closed terminal, ends this context, and so the pool and everything on it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	rates := []float64{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3}
	rec, err := observe.New(observe.Config{}) // of what the pool does
	if err != nil {
		log.Fatal(err)
	}
	screen := console.Show(rec, os.Stderr)
	err = sweep(ctx, provider, image, rates, results, os.Stdout, rec.Option())
	screen.Close() // which leaves one line
	if err != nil {
		stop()
		log.Fatal(err)
	}
}

// A score is the output of train.py.
type score struct {
	Rate     float64 `json:"rate"`
	Accuracy float64 `json:"accuracy"`
}

// sweep trains with every rate, saves the nodes' output in the folder out, and
// writes its progress and a table to w.
func sweep(ctx context.Context, provider gputrain.Provider, image gputrain.Image, rates []float64, out string, w io.Writer, opts ...gputrain.Option) (err error) {
	pool, err := gputrain.Open(ctx, provider,
		gputrain.Spec{Nodes: 4, MinReady: 2, Image: image}, // start when two are up; the others join
		append(opts, gputrain.WithName("digits"), gputrain.WithOutput(w, w), gputrain.WithResultsDir(filepath.Join(out, "tasks")))...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()

	if err := pool.Upload("../sweep/digits.csv.gz", "data/digits.csv.gz"); err != nil {
		return err
	}

	var tasks []gputrain.Task
	for _, rate := range rates {
		file := fmt.Sprintf("out/rate-%g.json", rate)
		c := gputrain.Cmd("python3", "src/train.py", "--data", "data/digits.csv.gz", "--rate", fmt.Sprint(rate), "--out", file)
		c.Name = fmt.Sprintf("rate-%g", rate)
		c.Timeout = 10 * time.Minute // running time; waiting for a node does not count
		c.Outputs = []string{file}
		tasks = append(tasks, c)
	}
	var scores []score
	var failed []error
	for r, err := range pool.Stream(tasks...) { // as they finish; leaving the loop cancels the rest
		if err != nil {
			failed = append(failed, err)
			continue
		}
		s, err := read(r)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		scores = append(scores, s)
	}

	slices.SortFunc(scores, func(a, b score) int { return cmp.Compare(b.Accuracy, a.Accuracy) })
	fmt.Fprintf(w, "\n%10s  %8s\n", "rate", "accuracy")
	for _, s := range scores {
		fmt.Fprintf(w, "%10g  %8.4f\n", s.Rate, s.Accuracy)
	}

	// The folder out of every node: that of node 0 arrives as nodes/0/out.
	if err := pool.Download("out", filepath.Join(out, "nodes")); err != nil {
		failed = append(failed, err)
	}
	fmt.Fprintf(w, "\nThe files of each task and of each node are in %s.\n", out)
	return errors.Join(failed...)
}

// read returns the score that a task has written.
func read(r gputrain.Result) (score, error) {
	var s score
	if len(r.Outputs) == 0 {
		return s, fmt.Errorf("task %d left no output file", r.Index)
	}
	data, err := os.ReadFile(filepath.Join(r.OutputDir, filepath.FromSlash(r.Outputs[0].Name)))
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}

// besideSource makes the folder of this file the current one, so that the
// example runs from anywhere in the repository.
func besideSource() error {
	if _, err := os.Stat("src/train.py"); err == nil {
		return nil
	}
	_, file, _, _ := runtime.Caller(0)
	return os.Chdir(filepath.Dir(file))
}
