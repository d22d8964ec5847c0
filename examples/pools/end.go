package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain"
)

var endCommand = &command{
	name: "end", args: "job|pool|left ...", least: 1, most: -1, summary: "end a job, a pool, or what is left",
	help: `  pools end job POOL JOB        cancel one task; the pool is left as it is
  pools end pool POOL           end the pool of a dead program, with everything
  pools end left [PROVIDER...]  end what dead programs have left there; without
                                providers, with those of the dead pools here
Without -yes, or a yes on the terminal, it only shows what would end. Living
programs' pools are left alone; "end pool -takeover" takes one from its program.`,
	flags: attachFlags, run: end,
}

func end(ctx context.Context, s *session) error {
	what, rest := s.args[0], s.args[1:]
	switch {
	case what == "job" && len(rest) == 2:
		return endJob(ctx, s, rest[0], rest[1])
	case what == "pool" && len(rest) == 1:
		return endPool(ctx, s, rest[0])
	case what == "left":
		return endLeft(ctx, s, rest)
	}
	return wrongUsage("usage: pools end job POOL JOB, pools end pool POOL, or pools end left [PROVIDER...]; see \"pools help end\"")
}

// An endView is what has ended, or would end, as JSON.
type endView struct {
	// DryRun means that nothing was ended.
	DryRun bool       `json:"dryRun"`
	Pools  []poolView `json:"pools,omitempty"`
	Job    string     `json:"job,omitzero"`
	Ended  []nodeView `json:"ended"`
	Left   []nodeView `json:"left,omitempty"`
}

// report prints what was ended, and what is left by an error.
func (s *session) report(v endView, ended []gputrain.Resource, err error) error {
	v.Ended = []nodeView{}
	for _, r := range ended {
		v.Ended = append(v.Ended, viewOfResource(r))
	}
	var leak *gputrain.LeakError
	if errors.As(err, &leak) {
		for _, r := range leak.Resources {
			v.Left = append(v.Left, viewOfResource(r))
		}
	}
	if s.json {
		return errors.Join(err, printJSON(s.out, v))
	}
	for _, r := range ended {
		fmt.Fprintf(s.out, "ended %s %s %s of pool %s\n", clean(r.Provider), clean(r.Kind), clean(r.ID), clean(r.Pool))
	}
	fmt.Fprintln(s.out, count(len(ended), "resource"), "ended")
	if leak != nil {
		for _, r := range leak.Resources {
			fmt.Fprintf(s.out, "LEFT %s %s %s in %s, %s\n", clean(r.Provider), clean(r.Kind), clean(r.ID), clean(r.Region), perHour(r.HourlyUSD))
		}
	}
	return err
}

// nothingEnded is the end of a dry run.
func (s *session) nothingEnded(v endView) error {
	v.DryRun, v.Ended = true, []nodeView{}
	if s.json {
		return printJSON(s.out, v)
	}
	fmt.Fprintln(s.err, "nothing was ended: -yes ends it")
	return nil
}

// showPools prints pools that are to end.
func (s *session) showPools(pools []gputrain.PoolRecord) (views []poolView, err error) {
	var t table
	t.add("POOL", "PROVIDER", "STATE", "NODES", "AGE", "COST", "OWNER")
	for _, p := range pools {
		views = append(views, viewOfPool(p))
		t.add(p.ID, p.Provider, p.State, p.Nodes, since(p.Created, time.Now()), spent(p.CostUSD, p.Unknown), p.Owner)
	}
	if !s.json {
		err = t.print(s.out)
	}
	return views, err
}

func endJob(ctx context.Context, s *session, name, job string) error {
	r, err := s.pool(name)
	if err != nil {
		return err
	}
	if !s.yes && !s.asks {
		return s.nothingEnded(endView{Job: job, Pools: []poolView{viewOfPool(r)}})
	}
	a, err := s.attach(ctx, r)
	if err != nil {
		return err
	}
	j, err := a.job(job)
	if err != nil {
		return errors.Join(err, a.leave())
	}
	select {
	case <-j.Done():
		return errors.Join(fmt.Errorf("job %s has ended already; its result is for the program that attaches to the pool", j.ID()), a.leave())
	default:
	}
	j.Cancel()
	select {
	case <-j.Done():
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), a.leave())
	}
	if err := a.leave(); err != nil {
		return err
	}
	if s.json {
		return printJSON(s.out, endView{Job: j.ID(), Ended: []nodeView{}})
	}
	fmt.Fprintln(s.out, "ended job", j.ID(), "of pool", a.ID())
	return nil
}
