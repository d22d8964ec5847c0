package console_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/console"
	"github.com/gputrain/gputrain/providers/local"
)

// On a terminal, Show(rec, os.Stderr) shows a live table. In a file there are lines.
func ExampleShow() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	f, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		panic(err)
	}
	defer f.Close()
	rec, err := observe.New(observe.Config{})
	if err != nil {
		panic(err)
	}
	defer rec.Close()
	view := console.Show(rec, f)
	defer view.Close()

	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{}, rec.Option())
	if err != nil {
		panic(err)
	}
	task := gputrain.Script("true")
	task.Name = "hello"
	pool.Gather(task)
	pool.Close()
	view.Close()

	text, _ := os.ReadFile(f.Name())
	for line := range strings.Lines(string(text)) {
		_, line, _ = strings.Cut(line, " ") // the time
		line, _, _ = strings.Cut(line, " after ")
		if strings.Contains(line, "ready") || strings.HasPrefix(line, "task") {
			line = strings.ReplaceAll(line, strings.Fields(line)[1], "…") // an ID
			fmt.Println(strings.TrimSpace(line))
		}
	}
	// Output:
	// node … ready
	// pool … ready
	// task … (hello) started on node 0
	// task … (hello) done on node 0
}

// Close leaves one line.
func ExampleView_Close() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	f, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		panic(err)
	}
	defer f.Close()
	rec, err := observe.New(observe.Config{})
	if err != nil {
		panic(err)
	}
	defer rec.Close()
	view := console.Show(rec, f)

	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{Nodes: 2}, rec.Option())
	if err != nil {
		panic(err)
	}
	pool.Close()
	if err := view.Close(); err != nil {
		panic(err)
	}

	text, _ := os.ReadFile(f.Name())
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	_, last, _ := strings.Cut(lines[len(lines)-1], " ") // the time
	fmt.Println(last[:strings.Index(last, "done")])
	// Output: gputrain: 2 nodes, 0/0 tasks
}
