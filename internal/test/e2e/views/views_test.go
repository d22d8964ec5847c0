// Package views tests, in virtual time, that whatever shows a pool says of its work what the calls have returned.
package views

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/report"
	"github.com/gputrain/gputrain/providers/sim"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	e2etest.Main(m)
}

// exec runs what a task names: "work" for ten minutes, "fail" fails after one, "again" fails at its first attempt, and so does
// the second process of "train" after five, which reports steps.
func exec(ctx context.Context, cmd sim.Command) int {
	first := cmd.Getenv("GPUTRAIN_ATTEMPT") == "1"
	lasts, code := 10*time.Minute, 0
	switch cmd.Args[0] {
	case "fail":
		lasts, code = time.Minute, 3
	case "again":
		if first {
			lasts, code = 2*time.Minute, 4
		}
	case "train":
		fmt.Fprintf(cmd.Stdout, "gputrain: step=%s\n", cmd.Getenv("GPUTRAIN_ATTEMPT"))
		if first && cmd.Getenv("RANK") == "1" {
			lasts, code = 5*time.Minute, 7
		}
	}
	select {
	case <-ctx.Done():
		return -15
	case <-time.After(lasts):
		return code
	}
}

// What page, console, report, bundle and tools show is a Run. Of each kind of work it has the cost, the attempts, the times and the
// end that the call has returned, live and from its file, and as much in all as Cost says.
func TestViewsAgree(t *testing.T) {
	offer := e2etest.OfferAt("here", 6)
	file := filepath.Join(t.TempDir(), "run.events")
	document := filepath.Join(t.TempDir(), "run.md")
	e2etest.InCloud(t, sim.Options{Exec: exec, Offers: []gputrain.Offer{offer}, BootTime: time.Minute}, func(t *testing.T, c *e2etest.SimCloud) {
		rec, err := observe.New(observe.Config{File: file})
		if err != nil {
			t.Fatal(err)
		}
		defer rec.Close()
		pool := c.Pool(t, gputrain.Spec{Nodes: 2, Concurrency: 2}, rec.Option())

		var all []gputrain.Result
		named := func(name, command string, retries int) gputrain.Task {
			task := gputrain.Cmd(command)
			task.Name, task.Retries = name, retries
			return task
		}
		one, err := pool.Run(named("one", "work", 0))
		all = append(all, one)
		if err != nil {
			t.Error(err)
		}
		several, err := pool.Gather(named("good", "work", 0), named("bad", "fail", 0), named("tried again", "again", 1))
		all = append(all, several...)
		if err == nil {
			t.Error("no task has failed")
		}
		everywhere, err := pool.Broadcast(gputrain.Cmd("work"))
		all = append(all, everywhere...)
		if err != nil {
			t.Error(err)
		}
		for r, err := range pool.Stream(named("streamed", "work", 0)) {
			all = append(all, r)
			if err != nil {
				t.Error(err)
			}
		}
		started, err := pool.Start(named("job", "work", 0)).Wait()
		all = append(all, started)
		if err != nil {
			t.Error(err)
		}
		late := named("late", "work", 0)
		late.Timeout = 3 * time.Minute
		r, err := pool.Run(late)
		all = append(all, r)
		if err == nil {
			t.Error("no task was late")
		}

		trained := make(chan gputrain.TrainResult)
		go func() {
			training := gputrain.Training{Task: named("llm", "train", 0), Restarts: 1, ProcessesPerNode: 1}
			r, err := pool.Train(training)
			if err != nil {
				t.Error(err)
			}
			trained <- r
		}()
		time.Sleep(3 * time.Minute)
		if err := pool.Sync(); err != nil {
			t.Error(err)
		}
		live := rec.Run()
		if live.Counts.Busy != 4 || live.Counts.Slots != 4 || live.Counts.Running != 1 {
			t.Errorf("while it trains: %+v", live.Counts)
		}
		for _, n := range live.Nodes {
			if !slices.Equal(n.Tasks, []string{"training llm"}) {
				t.Errorf("while it trains node %d has %q", n.Rank, n.Tasks)
			}
		}
		training := <-trained

		// After a call has returned, and Sync, a Run has its end.
		if err := pool.Sync(); err != nil {
			t.Error(err)
		}
		check(t, "live", rec.Run(), all, training)
		total := pool.Cost()
		if run := rec.Run(); math.Abs(run.SpentUSD-total.USD) > 1e-9 || math.Abs(run.HourlyUSD-total.HourlyUSD) > 1e-9 || run.AtMostUSD < total.AtMostUSD-1e-9 || run.AtMostUSD-total.AtMostUSD > total.HourlyUSD/4 || run.Bounded != total.Bounded {
			t.Errorf("the run: $%v, %v an hour, at most %v; Cost: %+v", run.SpentUSD, run.HourlyUSD, run.AtMostUSD, total)
		}
		c.CloseAndCheck(t, pool)
		total = pool.Cost()
		if err := rec.Close(); err != nil {
			t.Error(err)
		}
		read, err := observe.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		for how, run := range map[string]observe.Run{"at the end": rec.Run(), "read": read} {
			check(t, how, run, all, training)
			if math.Abs(run.SpentUSD-total.USD) > 1e-9 || run.HourlyUSD != 0 || run.Counts.Busy != 0 {
				t.Errorf("%s: $%v, %v an hour; Cost: %+v", how, run.SpentUSD, run.HourlyUSD, total)
			}
			sum := 0.0
			for _, n := range run.Nodes {
				sum += n.SpentUSD
			}
			if math.Abs(sum-total.USD) > 1e-9 {
				t.Errorf("%s: the nodes have cost $%v, and all $%v", how, sum, total.USD)
			}
		}
		if err := report.WriteMarkdown(document, read); err != nil {
			t.Fatal(err)
		}
	})
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	row := ""
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| training llm |") {
			row = line
		}
	}
	if !strings.Contains(row, "| 2 |") || strings.Contains(row, "$0.00 |") {
		t.Errorf("the report has of the training %q:\n%s", row, text)
	}
}

// check compares a Run with what the calls have returned.
func check(t *testing.T, how string, run observe.Run, all []gputrain.Result, training gputrain.TrainResult) {
	t.Helper()
	tasks := map[string]observe.Task{}
	sum := 0.0
	for _, task := range run.Tasks {
		tasks[task.ID] = task
		sum += task.SpentUSD
	}
	if len(tasks) != len(all)+1 {
		t.Errorf("%s: %d tasks, want %d", how, len(tasks), len(all)+1)
	}
	whole := map[string]float64{}
	done, failed, retries := 0, 0, 0
	for i, r := range all {
		task := tasks[r.Task]
		usd, _ := r.CostUSD.USD()
		if r.Task != fmt.Sprintf("t%d", i) || task.Name != r.Name || r.Name == "" {
			t.Errorf("%s: result %d is of task %q, %q; shown as %q", how, i, r.Task, r.Name, task.Name)
		}
		if !strings.HasPrefix(r.String(), r.Task+": "+r.Name+" ") {
			t.Errorf("%s: it prints as %q", how, r)
		}
		if math.Abs(task.SpentUSD-usd) > 1e-9 || usd == 0 {
			t.Errorf("%s: %s has cost $%v, and its result says %v", how, r.Name, task.SpentUSD, r.CostUSD)
		}
		if len(task.Attempts) != r.Attempts || task.Attempt != r.Attempts || task.ExitCode != r.ExitCode || task.Elapsed != r.Elapsed || task.Rank != r.Node.Rank {
			t.Errorf("%s: %s is shown as %+v; its result is %+v", how, r.Name, task, r)
		}
		want := "done"
		if r.Err != nil {
			want = "failed"
			failed++
			var e *gputrain.TaskError
			if !errors.As(r.Err, &e) || task.Cause != e.Cause.String() {
				t.Errorf("%s: %s is shown with the cause %q: %v", how, r.Name, task.Cause, r.Err)
			}
		} else {
			done++
		}
		retries += r.Attempts - 1
		if task.State != want {
			t.Errorf("%s: %s is %s, want %s", how, r.Name, task.State, want)
		}
		whole[r.Name] += usd
	}
	gang := tasks["training llm"]
	usd, _ := training.CostUSD.USD()
	if math.Abs(gang.SpentUSD-usd) > 1e-9 || usd == 0 || len(gang.Attempts) != 2 || len(training.Attempts) != 2 || gang.Attempt != 2 || gang.State != "done" || gang.Step.N != 2 {
		t.Errorf("%s: the training is shown as %+v; its result is %+v", how, gang, training)
	}
	for i, a := range gang.Attempts {
		of := training.Attempts[i]
		if a.Number != of.Number || len(a.Nodes) != len(of.Nodes) || a.Began.Sub(of.From).Abs() > time.Second || a.Ended.Before(of.From) {
			t.Errorf("%s: attempt %d of the training is shown as %+v; its result has %+v", how, i+1, a, of)
		}
	}
	for i, r := range training.Ranks {
		if r.Name != fmt.Sprintf("llm/%d", i) {
			t.Errorf("%s: rank %d is named %q", how, i, r.Name)
		}
	}
	groups := 0.0
	for _, g := range run.Groups {
		groups += g.SpentUSD
		if want, of := whole[g.Name]; of && math.Abs(g.SpentUSD-want) > 1e-9 {
			t.Errorf("%s: group %s has cost $%v, want %v", how, g.Name, g.SpentUSD, want)
		}
	}
	if math.Abs(groups-sum) > 1e-9 {
		t.Errorf("%s: all tasks have cost $%v, and all groups $%v", how, sum, groups)
	}
	if c := run.Counts; c.Done != done+1 || c.Failed != failed || c.Retries != retries+1 || c.Running+c.Waiting != 0 {
		t.Errorf("%s: %+v; %d done, %d failed, %d retries, and a training", how, c, done, failed, retries)
	}
}
