package report_test

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/report"
	"github.com/gputrain/gputrain/providers/local"
)

// start opens a pool of local nodes that a recorder observes, and a folder for reports.
func start(nodes int) (*observe.Recorder, *gputrain.Compute, string) {
	rec, err := observe.New(observe.Config{})
	if err != nil {
		panic(err)
	}
	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{Nodes: nodes}, rec.Option())
	if err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	return rec, pool, dir
}

// A report of a run is one file that a browser opens.
func ExampleWriteHTML() {
	rec, pool, dir := start(2)
	defer os.RemoveAll(dir)
	pool.Run(gputrain.Script("echo trained"))
	pool.Close()
	rec.Close()

	path := filepath.Join(dir, "run.html")
	err := report.WriteHTML(path, rec.Run())
	text, _ := os.ReadFile(path)
	fmt.Println(err, strings.Contains(string(text), "Cost by node"))
	// Output: <nil> true
}

// A report in Markdown can be pasted into an issue.
func ExampleWriteMarkdown() {
	path := filepath.Join(os.TempDir(), "empty.md")
	defer os.Remove(path)
	err := report.WriteMarkdown(path, observe.Run{})
	text, _ := os.ReadFile(path)
	fmt.Println(err)
	fmt.Println(strings.Join(strings.Split(string(text), "\n")[:3], "\n"))
	// Output:
	// <nil>
	// # gputrain report
	//
	// - Recorded: nothing
}

// The JSON of a run is for other programs.
func ExampleWriteJSON() {
	path := filepath.Join(os.TempDir(), "empty.json")
	defer os.Remove(path)
	err := report.WriteJSON(path, observe.Run{})
	text, _ := os.ReadFile(path)
	fmt.Println(err, string(text)[:13])
	// Output: <nil> {"version":1,
}

// A bundle says at its beginning what failed first.
func ExampleWriteBundle() {
	rec, pool, dir := start(1)
	defer os.RemoveAll(dir)
	bad := gputrain.Script("echo no such column >&2; exit 3")
	bad.Name = "train"
	path := filepath.Join(dir, "failure.zip")
	if _, err := pool.Run(bad); err != nil {
		if err := report.WriteBundle(context.Background(), path, rec, pool); err != nil {
			panic(err)
		}
	}
	pool.Close()
	rec.Close()

	bundle, err := zip.OpenReader(path)
	if err != nil {
		panic(err)
	}
	defer bundle.Close()
	cause, err := bundle.Open("CAUSE.txt")
	if err != nil {
		panic(err)
	}
	text, err := io.ReadAll(cause)
	first, _, _ := strings.Cut(string(text), ", ")
	fmt.Println(err, bundle.File[0].Name, first)
	// Output: <nil> CAUSE.txt Failed first: task t0 (train) on node 0: exit code 3
}
