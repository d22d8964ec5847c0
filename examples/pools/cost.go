package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/observe"
)

var costCommand = &command{
	name: "cost", args: "[POOL]", most: 1, summary: "show what pools have cost, and cost per hour",
	help: `Without a POOL: what each pool of this computer has cost so far, by its ledger. With
one, also its machines with their prices, as its provider lists them. Of a file of
events: each node's cost, and what the pool costs at most if its program dies.
All of it is an estimate; the provider's bill decides.`,
	flags: poolFlags, run: cost,
}

// A costView is what a pool costs, as JSON.
type costView struct {
	Pool    string     `json:"pool"`
	USD     float64    `json:"spentUSD"`
	Unknown int        `json:"unknownPrices"`
	Hourly  *float64   `json:"hourlyUSD"`
	Budget  *float64   `json:"budgetUSD,omitempty"`
	AtMost  *float64   `json:"atMostUSD,omitempty"`
	Nodes   []nodeView `json:"nodes,omitempty"`
}

func cost(ctx context.Context, s *session) error {
	if len(s.args) == 0 {
		return costOfAll(s)
	}
	if s.isFile(s.args[0]) {
		run, err := observe.Read(s.args[0])
		if err != nil {
			return err
		}
		return costOfRun(s, run)
	}
	r, err := s.pool(s.args[0])
	if err != nil {
		return err
	}
	machines, failed := s.machines(ctx, r)
	if errors.Is(failed, errNeedsSDK) {
		return failed
	}
	view := costView{Pool: r.ID, USD: r.CostUSD, Unknown: r.Unknown}
	hourly, known := 0.0, failed == nil
	for _, m := range machines {
		view.Nodes = append(view.Nodes, viewOfResource(m))
		usd, priced := m.HourlyUSD.USD()
		hourly, known = hourly+usd, known && priced
	}
	if known {
		view.Hourly = &hourly
	}
	if s.json {
		return errors.Join(printJSON(s.out, view), failed)
	}
	rate := "unknown"
	if known {
		rate = dollars(hourly) + "/h"
	}
	fmt.Fprintf(s.out, "pool %s has cost %s and costs %s\n", r.ID, spent(r.CostUSD, r.Unknown), rate)
	if len(machines) > 0 {
		var t table
		t.add("NAME", "ID", "STATE", "REGION", "PRICE", "AGE")
		for _, m := range machines {
			t.add(m.Name, m.ID, m.State, m.Region, perHour(m.HourlyUSD), since(m.Created, time.Now()))
		}
		if err := t.print(s.out); err != nil {
			return err
		}
	}
	return failed
}

func costOfAll(s *session) error {
	pools, err := s.dir().Pools()
	if err != nil {
		return err
	}
	views := []costView{}
	var sum float64
	var unknown int
	var t table
	t.add("POOL", "PROVIDER", "STATE", "NODES", "AGE", "COST")
	for _, p := range pools {
		views = append(views, costView{Pool: p.ID, USD: p.CostUSD, Unknown: p.Unknown})
		sum, unknown = sum+p.CostUSD, unknown+p.Unknown
		t.add(p.ID, p.Provider, p.State, p.Nodes, since(p.Created, time.Now()), spent(p.CostUSD, p.Unknown))
	}
	switch {
	case s.json:
		return printJSON(s.out, views)
	case len(pools) == 0:
		fmt.Fprintln(s.out, "no pools on this computer")
		return nil
	}
	t.add("all", "", "", "", "", spent(sum, unknown))
	return t.print(s.out)
}

func costOfRun(s *session, run observe.Run) error {
	ids := ""
	unknown := 0
	for i, p := range run.Pools {
		if i > 0 {
			ids += ", "
		}
		ids += clean(p.ID)
		unknown += p.Cost.Unknown
	}
	view := costView{Pool: ids, USD: run.SpentUSD, Unknown: unknown, Hourly: &run.HourlyUSD, Nodes: nodesOf(run)}
	if run.BudgetUSD > 0 {
		view.Budget = &run.BudgetUSD
	}
	if run.Bounded {
		view.AtMost = &run.AtMostUSD
	}
	if s.json {
		return printJSON(s.out, view)
	}
	fmt.Fprintf(s.out, "pool %s, as of %s: %s\n", ids, run.At.Local().Format(time.DateTime), costLine(run))
	return printNodes(s, run)
}

// costLine is what a Run costs, in a line.
func costLine(run observe.Run) string {
	unknown := 0
	isOpen := false
	for _, p := range run.Pools {
		unknown += p.Cost.Unknown
		isOpen = isOpen || p.Closed.IsZero()
	}
	text := spent(run.SpentUSD, unknown)
	if run.BudgetUSD > 0 {
		text += " of " + dollars(run.BudgetUSD)
	}
	text += " spent"
	switch {
	case !isOpen:
		return text
	case run.Bounded:
		return text + ", " + dollars(run.HourlyUSD) + "/h, at most " + dollars(run.AtMostUSD) + " if its program dies now"
	}
	return text + ", " + dollars(run.HourlyUSD) + "/h, without a bound if its program dies now"
}
