package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

var jobsCommand = &command{
	name: "jobs", args: "POOL", least: 1, most: 1, summary: "list a pool's tasks",
	help: `Of a file of events: all tasks with their state, node, time and cost.
` + takeoverNote + `
It lists the tasks whose results no program has taken yet, and takes none of them.`,
	flags: attachFlags, run: jobs,
}

// A jobView is a task as JSON.
type jobView struct {
	Pool     string    `json:"pool,omitzero"`
	ID       string    `json:"id"`
	Name     string    `json:"name,omitzero"`
	State    string    `json:"state"`
	Node     *int      `json:"node,omitempty"`
	Attempts int       `json:"attempts,omitzero"`
	Step     int64     `json:"step,omitzero"`
	Steps    int64     `json:"steps,omitzero"`
	Queued   time.Time `json:"queued,omitzero"`
	Elapsed  float64   `json:"elapsedSeconds,omitzero"`
	USD      float64   `json:"spentUSD,omitzero"`
	Err      string    `json:"error,omitzero"`
}

func jobs(ctx context.Context, s *session) (err error) {
	var views []jobView
	if s.isFile(s.args[0]) {
		run, err := observe.Read(s.args[0])
		if err != nil {
			return err
		}
		views = jobsOf(run)
	} else {
		r, err := s.pool(s.args[0])
		if err != nil {
			return err
		}
		a, err := s.attach(ctx, r)
		if err != nil {
			return err
		}
		views = a.jobs()
		if err := a.leave(); err != nil {
			return err
		}
	}
	if s.json {
		return printJSON(s.out, views)
	}
	return printJobs(s, views)
}

// jobs returns the jobs of a pool that was taken over.
func (a *attached) jobs() []jobView {
	run := a.seen()
	known := map[string]jobView{}
	for _, v := range jobsOf(run) {
		known[v.ID] = v
	}
	views := []jobView{}
	for _, j := range a.Jobs() {
		v := known[j.ID()]
		if v.ID == "" { // no event has come: it runs or waits since before
			v = jobView{Pool: a.ID(), ID: j.ID(), State: "open"}
		}
		select {
		case <-j.Done():
			if v.Elapsed == 0 && v.State != "cancelled" {
				v.State = "ended" // how, is in its result, which is for the program that attaches next
			}
		default:
		}
		views = append(views, v)
	}
	return views
}

// seen returns what is known of the pool once the events of its tasks have come, which are those before "ready".
func (a *attached) seen() observe.Run {
	for until := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		run := a.rec.Run()
		ready := slices.ContainsFunc(run.Pools, func(p observe.Pool) bool { return p.ID == a.ID() && !p.ReadyAt.IsZero() })
		if ready || time.Now().After(until) {
			return run
		}
	}
}

// jobsOf returns the tasks of a Run.
func jobsOf(run observe.Run) []jobView {
	ranks := map[string]int{}
	for _, n := range run.Nodes {
		ranks[n.Key] = n.Rank
	}
	views := []jobView{}
	for _, t := range run.Tasks {
		v := jobView{
			Pool: clean(t.Pool), ID: clean(t.ID), Name: clean(t.Name), State: t.State, Attempts: t.Attempt, Step: t.Step.N, Steps: t.Step.Of,
			Queued: t.Queued, Elapsed: seconds(elapsed(t, run.At)), USD: t.SpentUSD, Err: clean(t.Err),
		}
		if rank, ok := ranks[t.Node]; ok {
			v.Node = &rank
		}
		views = append(views, v)
	}
	return views
}

// elapsed returns how long a task's last attempt has run.
func elapsed(t observe.Task, now time.Time) time.Duration {
	switch {
	case t.Elapsed > 0 || t.Started.IsZero():
		return t.Elapsed
	case !t.Ended.IsZero():
		return t.Ended.Sub(t.Started)
	}
	return now.Sub(t.Started)
}

func printJobs(s *session, views []jobView) error {
	if len(views) == 0 {
		fmt.Fprintln(s.out, "no tasks")
		return nil
	}
	var t table
	t.add("JOB", "NAME", "STATE", "NODE", "ATTEMPT", "STEP", "TIME", "COST", "ERROR")
	for _, v := range views {
		node, step, lasted := "", "", ""
		if v.Node != nil {
			node = fmt.Sprint(*v.Node)
		}
		if v.Step > 0 {
			step = fmt.Sprint(v.Step)
			if v.Steps > 0 {
				step += fmt.Sprintf("/%d", v.Steps)
			}
		}
		if v.Elapsed > 0 {
			lasted = age(time.Duration(v.Elapsed * float64(time.Second)))
		}
		t.add(v.ID, v.Name, v.State, node, v.Attempts, step, lasted, dollars(v.USD), short(v.Err))
	}
	return t.print(s.out)
}

// job returns the job of an ID or a name.
func (a *attached) job(name string) (*gputrain.Job, error) {
	var found []*gputrain.Job
	names := map[string]string{}
	for _, v := range jobsOf(a.rec.Run()) {
		names[v.ID] = v.Name
	}
	for _, j := range a.Jobs() {
		if j.ID() == name {
			return j, nil
		}
		if names[j.ID()] == name {
			found = append(found, j)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("pool %s has no job %q; \"pools jobs %s\" lists those that it has", a.ID(), name, a.ID())
	}
	return nil, errors.New("several jobs have this name: give the ID of one")
}
